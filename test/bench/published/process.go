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
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// process is a running "tenantry up".
type process struct {
	*clients
	command *exec.Cmd
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
	c, err := newClients(config)
	return &process{clients: c, command: command, started: elapsed}, err
}

// end ends the process by a signal.
func (p *process) end(signal os.Signal) {
	_ = p.command.Process.Signal(signal)
	_ = p.command.Wait()
}

// usage is what a process takes.
type usage struct {
	cpu        time.Duration
	resident   int64 // bytes that are not of files
	goroutines int64
}

func (p *process) usage(ctx context.Context) (usage, error) {
	var u usage
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:13] { // user and system time, in hundredths of a second
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(n) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return u, err
	}
	u.resident = value(status, "RssAnon:") << 10
	metrics, err := p.typed.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	u.goroutines = value(metrics, "go_goroutines")
	return u, err
}

// value returns the number that follows name at the start of a line, or -1.
func value(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) > 1 && fields[0] == name {
			if number, err := strconv.ParseFloat(fields[1], 64); err == nil {
				return int64(number)
			}
		}
	}
	return -1
}
