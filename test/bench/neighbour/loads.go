package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// connections of the busy tenant: a server takes so many requests at a time on
// one, and no more.
const connections = 4

// watches are open while the busy tenant writes what they see.
const watches = 200

// load is what one worker of the busy tenant does, again and again.
type load struct {
	name string
	do   func(ctx context.Context, t *tenant, worker, round int) (int, error)
	// background is what goes on beside it, if anything.
	background func(ctx context.Context, t *tenant)
	// before is what has to be there, if anything.
	before func(ctx context.Context, t *tenant) error
	// workers are as many as there are by default if it is zero.
	workers int
}

func loads(s settings) []load {
	return append([]load{
		{name: "reads", do: func(ctx context.Context, t *tenant, worker, round int) (int, error) {
			return t.do(ctx, http.MethodGet, configMaps+"/"+object((worker+round)%s.objects), "", "")
		}},
		{name: "writes", do: func(ctx context.Context, t *tenant, worker, round int) (int, error) {
			return t.do(ctx, http.MethodPatch, configMaps+"/"+object(worker%s.objects), "application/merge-patch+json",
				fmt.Sprintf(`{"data":{"round":"%d"}}`, round))
		}},
		{name: "watches", do: func(ctx context.Context, t *tenant, worker, round int) (int, error) {
			return t.do(ctx, http.MethodPatch, configMaps+"/"+object(worker%8), "application/merge-patch+json",
				fmt.Sprintf(`{"data":{"round":"%d"}}`, round))
		}, background: func(ctx context.Context, t *tenant) {
			for range watches / connections {
				go t.watch(ctx)
			}
		}},
		{name: "big lists", do: func(ctx context.Context, t *tenant, _, _ int) (int, error) {
			return t.do(ctx, http.MethodGet, configMaps, "", "")
		}},
	}, costlyLoads()...)
}

func loadNames() (names []string) {
	for _, l := range loads(settings{}) {
		names = append(names, l.name)
	}
	return names
}

// watch reads a watch from now on until ctx ends.
func (t *tenant) watch(ctx context.Context) {
	for ctx.Err() == nil {
		version, err := t.version(ctx)
		if err != nil {
			continue
		}
		response, err := t.begin(ctx, http.MethodGet, configMaps+"?watch=true&resourceVersion="+version, "", "")
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

// version returns the resource version of the space as it is.
func (t *tenant) version(ctx context.Context) (string, error) {
	response, err := t.begin(ctx, http.MethodGet, configMaps+"?limit=1", "", "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var list metav1.PartialObjectMetadataList
	err = json.NewDecoder(response.Body).Decode(&list)
	return list.ResourceVersion, err
}

// saturate is the busy tenant. It prints a line when it is at work, and when it
// is interrupted how many requests a second were answered and refused.
func saturate(ctx context.Context, name, kubeconfig string, s settings) error {
	var l load
	for _, candidate := range loads(s) {
		if candidate.name == name {
			l = candidate
		}
	}
	if l.do == nil {
		return fmt.Errorf("unknown load %q", name)
	}
	var clients []*tenant
	for range connections {
		t, err := newTenant(kubeconfig)
		if err != nil {
			return err
		}
		clients = append(clients, t)
		if l.background != nil {
			l.background(ctx, t)
		}
	}
	if l.before != nil {
		if err := l.before(ctx, clients[0]); err != nil {
			return fmt.Errorf("preparing %q: %w", name, err)
		}
	}
	if l.workers > 0 {
		s.workers = l.workers
	}
	var answered, refused, failed atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for worker := range s.workers {
		group.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				status, err := l.do(ctx, clients[worker%connections], worker, round)
				switch {
				case err != nil:
					failed.Add(1)
				case status == http.StatusTooManyRequests:
					refused.Add(1)
					time.Sleep(100 * time.Millisecond) // sooner than it is told
				case status >= 300:
					failed.Add(1)
				default:
					answered.Add(1)
				}
			}
		})
	}
	time.Sleep(time.Second) // to fill what queues there are
	fmt.Println("at work")
	group.Wait()
	seconds := time.Since(began).Seconds()
	fmt.Printf("%.1f", float64(answered.Load())/seconds)
	if refused.Load() > 0 {
		fmt.Printf(" (%.0f refused)", float64(refused.Load())/seconds)
	}
	if failed.Load() > int64(s.workers) { // those under way at the end fail
		fmt.Printf(" (%.0f failed)", float64(failed.Load())/seconds)
	}
	fmt.Println()
	return nil
}
