package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// rooted returns the content of an image whose file system is that below dir, with what it runs,
// as root. entrypoint and command are words.
func rooted(dir, entrypoint, command string, architectures []string) ([]content, error) {
	if len(architectures) != 1 || strings.Contains(architectures[0], "=") {
		return nil, fmt.Errorf("%q: the files of a directory are for one architecture, and there are no binaries beside them", architectures)
	}
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		f, err := fileOf(path, entry)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, path)
		f.path = filepath.ToSlash(below)
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the directory of the image: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s is empty", dir)
	}
	config := v1.Config{Entrypoint: strings.Fields(entrypoint), Cmd: strings.Fields(command), WorkingDir: "/",
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	return []content{{architectures[0], [][]file{files}, config}}, nil
}

// fileOf reads a file, a directory or a symbolic link. Of its mode remain the permissions, and that
// of /tmp, where anybody writes and nobody deletes another's.
func fileOf(path string, entry fs.DirEntry) (file, error) {
	info, err := entry.Info()
	if err != nil {
		return file{}, err
	}
	f := file{mode: int64(info.Mode().Perm()), directory: info.IsDir()}
	if info.Mode()&fs.ModeSticky != 0 {
		f.mode |= 0o1000
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		f.link, err = os.Readlink(path)
	case info.Mode().IsRegular():
		f.content, err = os.ReadFile(path)
	case !info.IsDir():
		err = fmt.Errorf("%s is neither a file nor a directory nor a symbolic link", path)
	}
	return f, err
}
