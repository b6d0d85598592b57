package main

import (
	"bytes"
	"context"
	"strconv"

	"k8s.io/client-go/discovery"

	"github.com/tenantry/tenantry/test/harness"
)

// footprint is what a process holds.
type footprint struct {
	anonymous  int64 // resident memory that is not of files, in bytes
	files      int64 // resident memory of files: program and database, in bytes
	live       int64 // heap after a collection, in bytes
	goroutines int64
	watches    int64 // of etcd
	series     int64 // of metrics
}

func measureFootprint(ctx context.Context, p *harness.Tenantry) (footprint, error) {
	var f footprint
	server, err := discovery.NewDiscoveryClientForConfig(p.Config)
	if err != nil {
		return f, err
	}
	client := server.RESTClient()
	// collects garbage, so that what is alive can be read
	if err := client.Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error(); err != nil {
		return f, err
	}
	metrics, err := client.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return f, err
	}
	for line := range bytes.Lines(metrics) {
		if !bytes.HasPrefix(line, []byte("#")) {
			f.series++
		}
	}
	f.live = harness.Value(metrics, "go_memstats_heap_alloc_bytes")
	f.goroutines = harness.Value(metrics, "go_goroutines")
	goroutines, err := client.Get().AbsPath("/debug/pprof/goroutine").Param("debug", "1").DoRaw(ctx)
	if err != nil {
		return f, err
	}
	f.watches = running(goroutines, "etcd3.(*watchChan).startWatching")
	f.anonymous, f.files, err = p.Memory()
	return f, err
}

// running returns the number of goroutines in a profile that are inside function.
func running(profile []byte, function string) int64 {
	total := int64(0)
	for stack := range bytes.SplitSeq(profile, []byte("\n\n")) {
		if !bytes.Contains(stack, []byte(function)) {
			continue
		}
		for line := range bytes.Lines(stack) { // COUNT @ ADDRESSES
			if count, _, ok := bytes.Cut(line, []byte(" @ ")); ok {
				n, _ := strconv.ParseInt(string(count), 10, 64)
				total += n
			}
		}
	}
	return total
}
