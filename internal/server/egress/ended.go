package egress

import "context"

type callEndKey struct{}

// WithCallEnd has end called for each call of a webhook of a tenant by ctx, when it has answered or cannot any more.
func WithCallEnd(ctx context.Context, end func()) context.Context {
	return context.WithValue(ctx, callEndKey{}, end)
}

func callEnded(ctx context.Context) {
	if end, ok := ctx.Value(callEndKey{}).(func()); ok {
		end()
	}
}
