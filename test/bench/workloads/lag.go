package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tenantry/tenantry/test/harness"
)

func asked(m *moments) time.Time      { return m.asked }
func answered(m *moments) time.Time   { return m.answered }
func onHost(m *moments) time.Time     { return m.onHost }
func scheduled(m *moments) time.Time  { return m.scheduled }
func runsOnHost(m *moments) time.Time { return m.runsOnHost }
func runs(m *moments) time.Time       { return m.runs }

// lag measures each pod's way, at a rate.
func (b *bench) lag(ctx context.Context) error {
	inSpaces, err := b.steadily(ctx, "lag", b.spaces, &b.everywhere, b.lagPods, time.Second/time.Duration(b.rate))
	if err != nil {
		return err
	}
	direct, err := b.steadily(ctx, "plain", b.direct, nil, b.lagPods, time.Second/time.Duration(b.rate))
	if err != nil {
		return err
	}
	fmt.Printf("\n| of %d pods, %d a second | p50, p99, longest, ms |\n|---|---|\n", b.lagPods, b.rate)
	reportLag(inSpaces)
	harness.Row("created directly on the host to Running there", "%s", times(direct.between(asked, runs)))
	return errors.Join(empty(ctx, b.spaces, b.everywhere), empty(ctx, b.direct, b.everywhere))
}

func reportLag(r *record) {
	harness.Row("a creation in a space is answered", "%s", times(r.between(asked, answered)))
	harness.Row("created in a space to created on the host", "%s", times(r.between(asked, onHost)))
	harness.Row("Running on the host to Running in the space", "%s", times(r.between(runsOnHost, runs)))
	harness.Row("created in a space to Running there", "%s", times(r.between(asked, runs)))
}

func times(all []time.Duration) string {
	return fmt.Sprintf("%.0f, %.0f, %.0f", milliseconds(harness.Median(all)), milliseconds(harness.Quantile(all, 0.99)), milliseconds(slices.Max(all)))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// steadily creates pods in places in turn, at intervals, and returns when all are Running.
func (b *bench) steadily(ctx context.Context, prefix string, places []podNamespace, everywhere *podNamespace, count int, every time.Duration) (*record, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	r := newRecord(count)
	if err := r.follow(watching, places, everywhere); err != nil {
		return nil, err
	}
	var creating errgroup.Group
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := range count {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		creating.Go(func() error { return r.create(ctx, places[i%len(places)], fmt.Sprintf("%s-%05d", prefix, i)) })
	}
	if err := errors.Join(creating.Wait(), r.await(ctx)); err != nil {
		return nil, err
	}
	return r, nil
}
