package harness

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

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Tenantry is a running "tenantry up".
type Tenantry struct {
	// Config is of its administrator, without a limit of requests.
	Config *rest.Config
	// Started is the time from start to ready.
	Started time.Duration

	command *exec.Cmd
}

// StateDir is where a Tenantry that is started in dir has its state.
func StateDir(dir string) string { return filepath.Join(dir, "state") }

// EtcdDir is where it has its database.
func EtcdDir(dir string) string { return filepath.Join(StateDir(dir), "etcd") }

// UpArgs are the arguments with which a Tenantry is started in dir.
func UpArgs(dir string, port int) []string {
	return []string{"up", "--dir", StateDir(dir), "--secure-port", strconv.Itoa(port)}
}

// StartTenantry runs command, a Tenantry with UpArgs, until it is ready. Its log is in dir.
func StartTenantry(command *exec.Cmd, dir string) (*Tenantry, error) {
	began := time.Now()
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
		return nil, fmt.Errorf("%s is not ready; see %s", command.Path, log.Name())
	}
	started := time.Since(began)
	go func() { _, _ = io.Copy(io.Discard, output) }()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(StateDir(dir), "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return &Tenantry{Config: config, Started: started, command: command}, nil
}

// Up runs "tenantry up" of a binary until it is ready.
func Up(ctx context.Context, binary, dir string, port int) (*Tenantry, error) {
	return StartTenantry(exec.CommandContext(ctx, binary, UpArgs(dir, port)...), dir)
}

// WriteKubeconfig writes a file in dir with the credentials of the administrator of a
// tenant of the Tenantry there, and returns its path.
func WriteKubeconfig(ctx context.Context, binary, dir, tenant string) (string, error) {
	kubeconfig, err := exec.CommandContext(ctx, binary, "kubeconfig", tenant, "--dir", StateDir(dir)).Output()
	if err != nil {
		return "", fmt.Errorf("making a kubeconfig of tenant %q: %w", tenant, err)
	}
	path := filepath.Join(dir, tenant+".kubeconfig")
	return path, os.WriteFile(path, kubeconfig, 0o600)
}

// End ends the process by a signal and waits for it.
func (t *Tenantry) End(signal os.Signal) { End(t.command, signal) }

// CPU returns the processor time that the process has taken.
func (t *Tenantry) CPU() (time.Duration, error) { return cpu(t.command.Process.Pid) }

// Memory returns the resident memory of the process in bytes: that which is not of
// files, and that of files, which are program and database.
func (t *Tenantry) Memory() (anonymous, files int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.command.Process.Pid))
	return Value(status, "RssAnon:") << 10, Value(status, "RssFile:") << 10, err
}

// cpu returns the processor time that a process has taken, to the nanosecond:
// /proc has it in hundredths of a second.
func cpu(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED of linux/posix-timers.h
	var taken unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|scheduled, &taken); err != nil {
		return 0, fmt.Errorf("reading the clock of process %d: %w", pid, err)
	}
	return time.Duration(taken.Nano()), nil
}

// Value returns the number after a name at the begin of a line, -1 if there is none.
func Value(text []byte, name string) int64 {
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
