package control

import "context"

// CountRetries follows a stream that is always lost until ctx ends.
func CountRetries(ctx context.Context) (tries int) {
	c := Dial("/nowhere")
	again(ctx, c, nil, func(int) error { return nil }, func(context.Context, func(int) error) error {
		tries++
		return ErrLost
	})
	return tries
}
