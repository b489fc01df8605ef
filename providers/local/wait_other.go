//go:build !linux

package local

import "context"

func (p *Provider) waitEnd(ctx context.Context, who id) error { return pollEnd(ctx, who) }
