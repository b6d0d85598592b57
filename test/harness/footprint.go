package harness

import (
	"bytes"
	"context"
	"strconv"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// Footprint is what a process holds.
type Footprint struct {
	Anonymous  int64 // resident memory that is not of files, in bytes
	Files      int64 // resident memory of files: program and database, in bytes
	Live       int64 // heap after a collection, in bytes
	Goroutines int64
	Watches    int64 // of etcd
	Series     int64 // of metrics
}

// Footprint returns what the process holds.
func (t *Tenantry) Footprint(ctx context.Context) (Footprint, error) {
	return MeasureFootprint(ctx, t.Config, t.command.Process.Pid)
}

// MeasureFootprint returns what a process holds that serves /metrics and /debug/pprof as API servers do.
func MeasureFootprint(ctx context.Context, config *rest.Config, pid int) (Footprint, error) {
	var f Footprint
	server, err := discovery.NewDiscoveryClientForConfig(config)
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
			f.Series++
		}
	}
	f.Live = Value(metrics, "go_memstats_heap_alloc_bytes")
	f.Goroutines = Value(metrics, "go_goroutines")
	goroutines, err := client.Get().AbsPath("/debug/pprof/goroutine").Param("debug", "1").DoRaw(ctx)
	if err != nil {
		return f, err
	}
	f.Watches = running(goroutines, "etcd3.(*watchChan).startWatching")
	f.Anonymous, f.Files, err = memory(pid)
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
