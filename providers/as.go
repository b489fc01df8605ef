package providers

// As finds an ability of a Provider, Sandbox or Process: it asserts T on v and,
// while that fails, on what v wraps. The wrappers of this package (Retry, Log,
// Limit) answer Unwrap. A call through an ability found below a wrapper goes
// round that wrapper.
//
//	if s, ok := providers.As[providers.Snapshotter](sandbox); ok { … }
func As[T any](v any) (T, bool) {
	for v != nil {
		if t, ok := v.(T); ok {
			return t, true
		}
		switch w := v.(type) {
		case interface{ Unwrap() Provider }:
			v = w.Unwrap()
		case interface{ Unwrap() Sandbox }:
			v = w.Unwrap()
		case interface{ Unwrap() Process }:
			v = w.Unwrap()
		default:
			v = nil
		}
	}
	var none T
	return none, false
}
