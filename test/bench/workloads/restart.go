package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/test/harness"
)

// restart measures what pods cost in memory, and a syncer that starts anew with them.
func (b *bench) restart(ctx context.Context) error {
	began, before, err := b.restartSyncer(ctx)
	if err != nil {
		return err
	}
	fmt.Print("\n| a syncer | measured |\n|---|---|\n")
	harness.Row("start to nothing left to do, without pods", "%.1f s", began.Seconds())
	if _, err := b.turn(ctx, "kept", b.spaces, b.pods); err != nil {
		return err
	}
	if _, err := b.syncer.waitIdle(ctx); err != nil {
		return err
	}
	if err := signal.Pause(ctx, b.settle); err != nil {
		return err
	}
	full, err := b.syncer.footprint(ctx)
	if err != nil {
		return err
	}
	reportMemory("per pod, after creation", before, full, b.pods)
	began, after, err := b.restartSyncer(ctx)
	if err != nil {
		return err
	}
	harness.Row(fmt.Sprintf("start to nothing left to do, with %d pods", b.pods), "%.1f s", began.Seconds())
	sent, err := b.syncer.sent(ctx)
	if err != nil {
		return err
	}
	harness.Row("requests since then, but for leases and watches", "%s", sentences(sent))
	reportMemory("per pod, after a restart", before, after, b.pods)
	return empty(ctx, b.spaces, b.everywhere)
}

// restartSyncer ends the syncer and starts another one. It returns how long that takes until it has nothing left to do,
// and what it then holds.
func (b *bench) restartSyncer(ctx context.Context) (time.Duration, harness.Footprint, error) {
	harness.End(b.syncer.command, os.Interrupt)
	began := time.Now()
	var err error
	if b.syncer, err = startSyncer(ctx, b.dir, b.spacesFile, b.hostFile); err != nil {
		return 0, harness.Footprint{}, err
	}
	if err := b.syncer.awaitHost(ctx); err != nil {
		return 0, harness.Footprint{}, err
	}
	last, err := b.syncer.waitIdle(ctx)
	if err != nil {
		return 0, harness.Footprint{}, err
	}
	if err := signal.Pause(ctx, b.settle); err != nil {
		return 0, harness.Footprint{}, err
	}
	f, err := b.syncer.footprint(ctx)
	return last.Sub(began), f, err
}

func reportMemory(what string, before, now harness.Footprint, n int) {
	each := func(before, now int64) float64 { return float64(now-before) / 1024 / float64(n) }
	harness.Row("heap "+what, "%.1f KiB (%d to %d MiB)", each(before.Live, now.Live), before.Live>>20, now.Live>>20)
	harness.Row("resident memory "+what, "%.1f KiB (%d to %d MiB)", each(before.Anonymous, now.Anonymous), before.Anonymous>>20, now.Anonymous>>20)
}

// sentences lists requests, but for watches, "none" if there are none.
func sentences(sent map[string]int) string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(sent)) {
		if strings.Fields(what)[1] != "watch" {
			all = append(all, fmt.Sprintf("%d %s", sent[what], what))
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// idleness is what a syncer takes that has nothing to do.
type idleness struct {
	harness.Footprint
	// sent are its requests, and share is which part of a core it takes, in percent.
	sent  map[string]int
	share float64
}

func (b *bench) observe(ctx context.Context) (now idleness, err error) {
	if _, err := b.syncer.waitIdle(ctx); err != nil {
		return now, err
	}
	before, err := b.syncer.sent(ctx)
	if err != nil {
		return now, err
	}
	spent, err := harness.Spent(b.syncer.cpu, func() error { return signal.Pause(ctx, b.idleFor) })
	if err != nil {
		return now, err
	}
	after, err := b.syncer.sent(ctx)
	if err != nil {
		return now, err
	}
	now.sent, now.share = since(before, after), 100*spent.Seconds()/b.idleFor.Seconds()
	now.Footprint, err = b.syncer.footprint(ctx)
	return now, err
}

// besideIdle measures what tenants add to the syncer that have no pods.
func (b *bench) besideIdle(ctx context.Context) error {
	before, err := b.observe(ctx)
	if err != nil {
		return err
	}
	sentBefore, err := b.syncer.sent(ctx)
	if err != nil {
		return err
	}
	heldBefore, err := b.held(ctx)
	if err != nil {
		return err
	}
	if _, err := b.newTenants(ctx, idlePrefix, b.idle); err != nil {
		return err
	}
	sentAfter, err := b.syncer.sent(ctx)
	if err != nil {
		return err
	}
	after, err := b.observe(ctx)
	if err != nil {
		return err
	}
	heldAfter, err := b.held(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n| %d idle tenants | measured |\n|---|---|\n", b.idle)
	harness.Row("requests of the syncer while they are created, but for leases", "%s", sentences(since(sentBefore, sentAfter)))
	harness.Row(fmt.Sprintf("in %s after that", b.idleFor), "%s", sentences(after.sent))
	harness.Row("processor time while nothing happens, before and after", "%.2f and %.2f %% of a core", before.share, after.share)
	for i := range heldAfter {
		harness.Row(heldAfter[i].what, "%d to %d", heldBefore[i].count, heldAfter[i].count)
	}
	harness.Row("watches that the syncer has opened", "%d to %d", watches(sentBefore), watches(sentAfter))
	reportMemory("per idle tenant", before.Footprint, after.Footprint, b.idle)
	return grown(heldBefore, heldAfter, b.idle)
}

func watches(sent map[string]int) (all int) {
	for what, n := range sent {
		if strings.Fields(what)[1] == "watch" {
			all += n
		}
	}
	return all
}
