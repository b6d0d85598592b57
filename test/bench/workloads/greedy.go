package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tenantry/tenantry/internal/process/signal"
)

const (
	// A tenant that asks for less than its share of what the machine can do, or it waits as the others do.
	quietEvery = 2 * time.Second
	// greedyWorkers is how many pods each of the others creates at once.
	greedyWorkers = 4
)

// besideGreedy measures the pods of a tenant, alone and beside others who create theirs as fast as they can; and then
// the same pods created directly on the host, at the same times.
func (b *bench) besideGreedy(ctx context.Context) error {
	inSpaces, err := b.newTenants(ctx, greedyPrefix, b.greedy+1)
	if err != nil {
		return err
	}
	direct, err := b.newNamespaces(ctx, greedyPrefix, b.greedy+1)
	if err != nil {
		return err
	}
	var at map[string]time.Duration
	var rows [4]*record
	for i, side := range []struct {
		name   string
		places []podNamespace
	}{{"space", inSpaces}, {"direct", direct}} {
		quiet := side.places[:1]
		if _, err := b.steadily(ctx, side.name+"-warm", quiet, nil, 1, quietEvery); err != nil {
			return err
		}
		if rows[2*i], err = b.steadily(ctx, side.name+"-alone", quiet, &b.everywhere, b.quietPods, quietEvery); err != nil {
			return err
		}
		if rows[2*i+1], at, err = b.amid(ctx, side.name, quiet, side.places[1:], at); err != nil {
			return err
		}
		if err := empty(ctx, side.places, b.everywhere); err != nil {
			return err
		}
	}
	reportGreedy(rows, b.quietPods, b.greedy, len(at))
	if took := slices.Max(rows[1].between(asked, runs)); b.longest > 0 && took > b.longest {
		return fmt.Errorf("a pod of the quiet tenant took %s, which is more than %s", took, b.longest)
	}
	return nil
}

func reportGreedy(rows [4]*record, quietPods, greedy, pods int) {
	fmt.Printf("\n| a tenant's %d pods, each after %s: p50, p99, longest, ms | alone | beside %d others, who create %d pods meanwhile | directly on the host, alone | beside the same |\n"+
		"|---|---|---|---|---|\n", quietPods, quietEvery, greedy, pods)
	for _, row := range []struct {
		what     string
		from, to func(*moments) time.Time
	}{
		{"a creation is answered", asked, answered}, {"created to created on the host", asked, onHost}, {"created on the host to having a node", onHost, scheduled},
		{"having a node to Running on the host", scheduled, runsOnHost}, {"Running on the host to Running in the space", runsOnHost, runs}, {"created to Running", asked, runs},
	} {
		fmt.Printf("| %s |", row.what)
		for _, r := range rows {
			fmt.Printf(" %s |", times(r.between(row.from, row.to)))
		}
		fmt.Println()
	}
}

// amid measures pods of quiet places beside greedy ones that create theirs as fast as they can or, if times are given,
// at these. It returns the times.
func (b *bench) amid(ctx context.Context, name string, quiet, greedy []podNamespace, at map[string]time.Duration) (*record, map[string]time.Duration, error) {
	busy, stop := context.WithCancel(ctx)
	defer stop()
	began, crowd := time.Now(), newRecord(0)
	var creating errgroup.Group
	for i, p := range greedy {
		for worker := range greedyWorkers {
			creating.Go(func() error {
				for n := worker; n < b.greedyPods; n += greedyWorkers {
					pod := fmt.Sprintf("%s-%05d", greedyPrefix, i*b.greedyPods+n)
					if when, known := at[pod]; at != nil && !known || signal.Pause(busy, time.Until(began.Add(when))) != nil {
						return nil
					}
					if err := crowd.create(busy, p, pod); err != nil && busy.Err() == nil {
						return err
					}
				}
				return nil
			})
		}
	}
	r, err := b.steadily(ctx, name+"-beside", quiet, &b.everywhere, b.quietPods, quietEvery)
	stop()
	if err := errors.Join(err, creating.Wait()); err != nil {
		return nil, nil, err
	}
	at = map[string]time.Duration{}
	for pod, m := range crowd.of {
		if !m.answered.IsZero() {
			at[pod] = m.asked.Sub(began)
		}
	}
	return r, at, nil
}
