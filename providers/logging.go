package providers

import (
	"context"
	"log/slog"
	"time"
)

// Log wraps a provider and all it returns. Each call is one line at debug
// level: op, name, duration and, when it failed, class and error. Nothing of a
// command is logged, so no secret can be.
func Log(p Provider, log *slog.Logger) Provider {
	return &aroundProvider{p, func(ctx context.Context, c call, do func() error) error {
		if !log.Enabled(ctx, slog.LevelDebug) {
			return do()
		}
		began := time.Now()
		err := do()
		attrs := []slog.Attr{
			slog.String("op", c.op), slog.String("name", c.name), slog.Duration("duration", time.Since(began)),
		}
		if err != nil {
			attrs = append(attrs, slog.String("class", string(ClassOf(err))), slog.String("error", err.Error()))
		}
		log.LogAttrs(ctx, slog.LevelDebug, "provider call", attrs...)
		return err
	}}
}
