package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/test/harness"
)

// turn creates pods in places as fast as it can, and returns how long it takes until all are Running there.
func (b *bench) turn(ctx context.Context, prefix string, places []podNamespace, pods int) (time.Duration, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	r := newRecord(pods)
	if err := r.follow(watching, places, nil); err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := harness.Each(0, pods, b.workers, func(i int) error {
		return r.create(ctx, places[i%len(places)], fmt.Sprintf("%s-%05d", prefix, i))
	}); err != nil {
		return 0, err
	}
	err := r.await(ctx)
	return time.Since(began), err
}

// side is one of the two that are compared.
type side struct {
	name   string
	places []podNamespace
	took   time.Duration
	// spent is the processor time of each process in all turns.
	spent []time.Duration
}

// throughput compares pods of spaces with those of the host, in turns.
func (b *bench) throughput(ctx context.Context) error {
	sides := []*side{{name: "spaces", places: b.spaces}, {name: "direct", places: b.direct}}
	var ratios []float64
	var rows strings.Builder
	sent := map[string]int{}
	for run := range b.runs {
		order := slices.Clone(sides)
		if run%2 == 1 {
			slices.Reverse(order)
		}
		for _, side := range order {
			before, err := b.syncer.sent(ctx)
			if err != nil {
				return err
			}
			if err := b.take(ctx, side, fmt.Sprintf("%s-%d", side.name, run)); err != nil {
				return err
			}
			after, err := b.syncer.sent(ctx)
			if err != nil {
				return err
			}
			if side == sides[0] {
				for what, n := range since(before, after) {
					sent[what] += n
				}
			}
			if err := empty(ctx, side.places, b.everywhere); err != nil {
				return err
			}
		}
		ratios = append(ratios, sides[1].took.Seconds()/sides[0].took.Seconds())
		rate := func(s *side) float64 { return float64(b.pods) / s.took.Seconds() }
		fmt.Fprintf(&rows, "| %d | %.1f | %.1f | %.2f |\n", run+1, rate(sides[0]), rate(sides[1]), ratios[run])
	}
	fmt.Printf("\n| run of %d pods | in spaces, 1/s | directly, 1/s | ratio |\n|---|---|---|---|\n%s\nRatio: %s\n", b.pods, rows.String(), harness.Spread(ratios))
	b.reportSpent(sides)
	b.reportSent(sent)
	return nil
}

// take has one turn of a side, after which the syncer has nothing to do.
func (b *bench) take(ctx context.Context, side *side, prefix string) error {
	before, err := b.spent()
	if err != nil {
		return err
	}
	if side.took, err = b.turn(ctx, prefix, side.places, b.pods); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "workloads: %s, %.1f pods a second\n", prefix, float64(b.pods)/side.took.Seconds())
	if _, err := b.syncer.waitIdle(ctx); err != nil {
		return err
	}
	after, err := b.spent()
	if err != nil {
		return err
	}
	if side.spent == nil {
		side.spent = make([]time.Duration, len(after))
	}
	for i := range after {
		side.spent[i] += after[i] - before[i]
	}
	return nil
}

func (b *bench) reportSpent(sides []*side) {
	fmt.Print("\n| processor time for a pod, ms | in spaces | directly |\n|---|---|---|\n")
	pods := float64(b.runs * b.pods)
	var totals [2]time.Duration
	for i, p := range b.processes {
		fmt.Printf("| %s | %.2f | %.2f |\n", p.name, milliseconds(sides[0].spent[i])/pods, milliseconds(sides[1].spent[i])/pods)
		totals[0] += sides[0].spent[i]
		totals[1] += sides[1].spent[i]
	}
	fmt.Printf("| all | %.2f | %.2f |\n", milliseconds(totals[0])/pods, milliseconds(totals[1])/pods)
}

func (b *bench) reportSent(sent map[string]int) {
	fmt.Print("\n| requests of the syncer for a pod | |\n|---|---|\n")
	for _, what := range slices.Sorted(maps.Keys(sent)) {
		if each := float64(sent[what]) / float64(b.runs*b.pods); each >= 0.01 {
			harness.Row(what, "%.2f", each)
		}
	}
}
