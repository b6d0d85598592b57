package statedir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAcquire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	first, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	want := fmt.Sprintf("directory %s is in use by another tenantry (process %d)", path, os.Getpid())
	if _, err := Acquire(path); err == nil || err.Error() != want {
		t.Errorf("second Acquire: %v, want %q", err, want)
	}
	first.Release()
	again, err := Acquire(path)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again.Release()
}

func TestAcquireUnusable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lockIsDir := filepath.Join(dir, "d")
	if err := os.MkdirAll(filepath.Join(lockIsDir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"is a file":       file,
		"below a file":    filepath.Join(file, "x"),
		"lock is no file": lockIsDir,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Acquire(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("got error %v, want one that names %s", err, path)
			}
		})
	}
}

// TestAcquireCloses checks that nobody else can read what was restored without its modes.
func TestAcquireCloses(t *testing.T) {
	path := Path(t.TempDir())
	for _, dir := range []string{path.PKI(), path.Etcd()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path.AdminKubeconfig(), nil, 0o644); err != nil { // as it was restored
		t.Fatal(err)
	}
	dir, err := Acquire(string(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Release()
	for path, mode := range map[string]os.FileMode{path.PKI(): 0o700, path.Etcd(): 0o700, path.AdminKubeconfig(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}
