package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("a much longer old content"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "new" {
		t.Errorf("read %q, %v", got, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files left, %v", len(entries), err)
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	occupied := filepath.Join(dir, "directory")
	if err := os.MkdirAll(filepath.Join(occupied, "child"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no such directory": filepath.Join(dir, "none", "file"),
		"not a file":        occupied,
	} {
		t.Run(name, func(t *testing.T) {
			if err := Write(path, []byte("new")); err == nil {
				t.Error("no error")
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("%d files left, %v", len(entries), err)
			}
		})
	}
}
