package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const sums = "SHA256SUMS"

// file is one of an archive.
type file struct {
	name, source string
	mode         int64
}

// directory lists what is below a directory, below another name.
func directory(from, name string) func() ([]file, error) {
	return func() ([]file, error) {
		var files []file
		err := filepath.WalkDir(from, func(source string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			below, err := filepath.Rel(from, source)
			files = append(files, file{path.Join(name, filepath.ToSlash(below)), source, 0o644})
			return err
		})
		return files, err
	}
}

// pack writes an archive of files in the order of their names, of root and of one time.
func (r release) pack(name string, list func() ([]file, error)) error {
	files, err := list()
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for _, f := range files {
		content, err := os.ReadFile(f.source)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(content)), ModTime: r.time, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return r.put(name, packed.Bytes())
}

func (r release) put(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.dir, name), content, 0o644)
}

// writeManifests writes what "kubectl apply -k" applies of config/default and of config/workloads.
func (r release) writeManifests() error {
	for name, overlay := range map[string]string{"install.yaml": "default", "workloads.yaml": "workloads"} {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(r.root, "config", overlay))
		if err != nil {
			return fmt.Errorf("building config/%s: %w", overlay, err)
		}
		content, err := resources.AsYaml()
		if err != nil {
			return err
		}
		if err := r.put(name, content); err != nil {
			return err
		}
	}
	return nil
}

// writeSums writes the digests of all files, as "sha256sum --check" reads them.
func (r release) writeSums() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == sums {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return r.put(sums, []byte(lines.String()))
}
