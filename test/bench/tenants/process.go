package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// process is a running "tenantry up".
type process struct {
	command *exec.Cmd
	config  *rest.Config
	started time.Duration // from start to ready
}

func start(ctx context.Context, binary, dir string, port int) (*process, error) {
	began := time.Now()
	command := exec.CommandContext(ctx, binary, "up", "--dir", filepath.Join(dir, "state"), "--secure-port", strconv.Itoa(port))
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	command.Stderr = log
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	if ready := bufio.NewScanner(output); !ready.Scan() {
		return nil, fmt.Errorf("%s is not ready; see %s", binary, log.Name())
	}
	elapsed := time.Since(began)
	go func() { _, _ = io.Copy(io.Discard, output) }()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "state", "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return &process{command: command, config: config, started: elapsed}, nil
}

func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	_ = p.command.Wait()
}

// footprint is what a process holds.
type footprint struct {
	anonymous  int64 // resident memory that is not of files, in bytes
	files      int64 // resident memory of files: program and database, in bytes
	live       int64 // heap after a collection, in bytes
	goroutines int64
	watches    int64 // of etcd
	series     int64 // of metrics
	cpu        time.Duration
}

func (p *process) footprint(ctx context.Context) (footprint, error) {
	var f footprint
	client, err := rest.UnversionedRESTClientFor(rawConfig(p.config))
	if err != nil {
		return f, err
	}
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
	f.live = value(metrics, "go_memstats_heap_alloc_bytes")
	f.goroutines = value(metrics, "go_goroutines")
	goroutines, err := client.Get().AbsPath("/debug/pprof/goroutine").Param("debug", "1").DoRaw(ctx)
	if err != nil {
		return f, err
	}
	f.watches = running(goroutines, "etcd3.(*watchChan).startWatching")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return f, err
	}
	f.anonymous = value(status, "RssAnon:") << 10
	f.files = value(status, "RssFile:") << 10
	f.cpu, err = p.cpu()
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

// value returns the number that follows name at the start of a line, or -1.
func value(text []byte, name string) int64 {
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `\s+(\S+)`).FindSubmatch(text)
	if match == nil {
		return -1
	}
	number, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		return -1
	}
	return int64(number)
}

// cpu returns the processor time that the process has taken.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := int64(0)
	for _, field := range fields[11:13] { // user and system time, in hundredths of a second
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
