package standalone

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/tenantry/tenantry/internal/server"
)

// NewServer makes a server of options that are valid.
func NewServer(ctx context.Context, options *server.Options) (*server.Server, error) {
	return build(ctx, options, server.New)
}

func build[S any](ctx context.Context, options *server.Options, newServer func(context.Context, server.CompletedOptions) (*S, error)) (*S, error) {
	completed, err := options.Complete(ctx)
	if err == nil {
		err = utilerrors.NewAggregate(completed.Validate())
	}
	if err != nil {
		return nil, err
	}
	return newServer(ctx, completed)
}

// Serve runs a server until ctx ends and, once it is ready, what runs beside it.
func Serve(ctx context.Context, s *server.Server, beside ...func(context.Context) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(groupCtx) })
	group.Go(func() error {
		if err := s.WaitUntilReady(groupCtx); err != nil {
			return ignoreCanceled(err)
		}
		for _, run := range beside {
			group.Go(func() error { return ignoreCanceled(run(groupCtx)) })
		}
		return nil
	})
	return group.Wait()
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
