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
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Tenantry is a running "tenantry up".
type Tenantry struct {
	// Config is of its administrator, without a limit of requests.
	Config *rest.Config
	// Started is the time from start to ready.
	Started time.Duration

	command *exec.Cmd
}

// Installation is where a Tenantry runs, again and again: its binary, the directory of its
// state, log and kubeconfigs, and its port.
type Installation struct {
	Binary, Dir string
	port        int
}

// NewInstallation returns one with a port that nobody else has.
func NewInstallation(binary, dir string) (Installation, error) {
	port, err := FreePort()
	return Installation{binary, dir, port}, err
}

// Install does something with an installation in a new directory, which is kept if that
// fails.
func Install(name, binary string, do func(Installation) error) error {
	return InTempDir(name, func(dir string) error {
		i, err := NewInstallation(binary, dir)
		if err != nil {
			return err
		}
		return do(i)
	})
}

func (i Installation) stateDir() string { return filepath.Join(i.Dir, "state") }

// EtcdDir is where the database is.
func (i Installation) EtcdDir() string { return filepath.Join(i.stateDir(), "etcd") }

// UpArgs are the arguments of the binary for running everything.
func (i Installation) UpArgs() []string {
	return []string{"up", "--dir", i.stateDir(), "--secure-port", strconv.Itoa(i.port)}
}

// Up runs everything until it is ready.
func (i Installation) Up(ctx context.Context) (*Tenantry, error) {
	return i.Start(exec.CommandContext(ctx, i.Binary, i.UpArgs()...))
}

// Start runs command, the binary with UpArgs, until it is ready.
func (i Installation) Start(command *exec.Cmd) (*Tenantry, error) {
	began := time.Now()
	log, err := os.OpenFile(filepath.Join(i.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(i.stateDir(), "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return &Tenantry{Config: config, Started: started, command: command}, nil
}

// WriteToken writes a kubeconfig with the token of a config and a namespace, and returns its path.
func WriteToken(config *rest.Config, namespace, path string) (string, error) {
	return path, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"it": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"it": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"it": {Cluster: "it", AuthInfo: "it", Namespace: namespace}},
		CurrentContext: "it",
	}, path)
}

// WriteKubeconfig writes a file with the credentials of the administrator of a tenant, and
// returns its path.
func (i Installation) WriteKubeconfig(ctx context.Context, tenant string) (string, error) {
	kubeconfig, err := exec.CommandContext(ctx, i.Binary, "kubeconfig", tenant, "--dir", i.stateDir()).Output()
	if err != nil {
		return "", fmt.Errorf("making a kubeconfig of tenant %q: %w", tenant, err)
	}
	path := filepath.Join(i.Dir, tenant+".kubeconfig")
	return path, os.WriteFile(path, kubeconfig, 0o600)
}

// End ends the process by a signal and waits for it.
func (t *Tenantry) End(signal os.Signal) { End(t.command, signal) }

// CPU returns the processor time that the process has taken.
func (t *Tenantry) CPU() (time.Duration, error) { return cpu(t.command.Process.Pid) }

// Memory returns the resident memory of the process in bytes: that which is not of
// files, and that of files, which are program and database.
func (t *Tenantry) Memory() (anonymous, files int64, err error) { return memory(t.command.Process.Pid) }

func memory(pid int) (anonymous, files int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return Value(status, "RssAnon:") << 10, Value(status, "RssFile:") << 10, err
}

// CPU returns the processor time that a running program has taken.
func CPU(command *exec.Cmd) (time.Duration, error) { return cpu(command.Process.Pid) }

// OwnCPU returns the processor time that this process has taken.
func OwnCPU() (time.Duration, error) { return cpu(os.Getpid()) }

// Spent returns the processor time that is spent while something is done. cpu says how much was at a moment.
func Spent(cpu func() (time.Duration, error), do func() error) (time.Duration, error) {
	before, err := cpu()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := cpu()
	return after - before, err
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
