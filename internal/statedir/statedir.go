package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
)

// Path is that of a state directory.
type Path string

// PKI returns the directory of keys and certificates.
func (p Path) PKI() string { return filepath.Join(string(p), "pki") }

// Etcd returns the directory of the embedded etcd's data.
func (p Path) Etcd() string { return filepath.Join(string(p), "etcd") }

// Search returns the directory of the search index, which can be made anew from etcd's data.
func (p Path) Search() string { return filepath.Join(string(p), "search") }

// AdminKubeconfig returns the file with the system administrator's kubeconfig.
func (p Path) AdminKubeconfig() string { return filepath.Join(string(p), "admin.kubeconfig") }

// Dir is a state directory in use by this process.
type Dir struct {
	Path
	lock *os.File
}

// Acquire makes the directory at path, if it is missing, and locks it for this
// process. The lock ends with the process, however that ends. What is in it is closed to other users.
func Acquire(path string) (*Dir, error) {
	if path == "" {
		return nil, errors.New("--dir is empty: name a directory")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("resolving directory %q: %w", path, err)
	}
	if err := os.MkdirAll(absolute, 0o700); err != nil {
		return nil, Explain(absolute, fmt.Errorf("--dir: creating directory %s: %w", absolute, cause(err)))
	}
	name := filepath.Join(absolute, "lock")
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, Explain(absolute, fmt.Errorf("--dir: directory %s cannot be used: %w", absolute, err))
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := readHolder(lock)
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("directory %s is in use by another tenantry%s", absolute, holder)
		}
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	if err := writeHolder(lock); err != nil {
		_ = lock.Close()
		return nil, Explain(absolute, fmt.Errorf("--dir: directory %s cannot be written: %w", absolute, cause(err)))
	}
	if err := Path(absolute).closeToOthers(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &Dir{Path: Path(absolute), lock: lock}, nil
}

// closeToOthers makes what keys and secrets are in readable by nobody else, as it was made: a copy that was restored
// may not be. It says so in the log, for who has read them has them.
func (p Path) closeToOthers() error {
	for _, path := range []string{p.PKI(), p.Etcd(), p.Search(), p.AdminKubeconfig()} {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) || err == nil && info.Mode().Perm()&0o077 == 0 {
			continue
		}
		if err == nil {
			klog.InfoS("Others could read keys and secrets; they cannot any longer, and whoever may have read them has them", "path", path)
			err = os.Chmod(path, info.Mode().Perm()&0o700)
		}
		if err != nil {
			return fmt.Errorf("others may read %s, which has keys and secrets: make it that of the user who runs tenantry, and of nobody else: %w", path, cause(err))
		}
	}
	return nil
}

// Release lets other processes use the directory. Nothing was written to the lock
// that closing it could lose.
func (d *Dir) Release() { _ = d.lock.Close() }

// The lock file says who holds it, for people; the lock itself is the kernel's.

func writeHolder(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func readHolder(lock *os.File) string {
	data := make([]byte, 32)
	n, _ := lock.ReadAt(data, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data[:n])))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// cause drops the path from an error whose message has it already.
func cause(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}
