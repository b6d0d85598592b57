package main

import (
	"archive/tar"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// nameAnnotation is by which containerd names what it imports. The other one is OCI's own,
// for tools that copy images.
const (
	nameAnnotation      = "io.containerd.image.name"
	referenceAnnotation = "org.opencontainers.image.ref.name"
)

// write packs the image under a name into a tarball.
func (m image) write(out, name string) (err error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	top := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: m.index, Descriptor: v1.Descriptor{Annotations: map[string]string{nameAnnotation: name, referenceAnnotation: name}},
	})
	if _, err := layout.Write(dir, top); err != nil {
		return err
	}
	if err := m.writeManifest(filepath.Join(dir, "manifest.json"), name); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	to, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := pack(to, dir); err != nil {
		to.Close()
		return err
	}
	return to.Close()
}

// loaded is an image of manifest.json.
type loaded struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// writeManifest writes what "docker load" reads where Docker has no store of images for
// several architectures: a name for each, and the plain one for the first.
func (m image) writeManifest(file, name string) error {
	var all []loaded
	for i, one := range m.of {
		manifest, err := one.Manifest()
		if err != nil {
			return err
		}
		entry := loaded{Config: blob(manifest.Config.Digest), RepoTags: []string{name + "-" + one.architecture}}
		if i == 0 {
			entry.RepoTags = append(entry.RepoTags, name)
		}
		for _, l := range manifest.Layers {
			entry.Layers = append(entry.Layers, blob(l.Digest))
		}
		all = append(all, entry)
	}
	content, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

func blob(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// pack writes the files below dir in the order of their names.
func pack(to io.Writer, dir string) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: info.Size(), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		from, err := os.Open(file)
		if err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(w, from)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
