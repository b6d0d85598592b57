package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// user is who the process is where nothing else is said. Kubernetes lets no image
	// with a name here run as "not root".
	user = "65532:65532"
	// rootsFile is where Go looks first.
	rootsFile = "etc/ssl/certs/ca-certificates.crt"
)

// content is what the image for an architecture, as Go calls it, has: a layer of each list of
// files.
type content struct {
	architecture string
	layers       [][]file
	config       v1.Config
}

// program is a binary with what it needs.
func program(architecture string, binary []byte) content {
	return content{
		architecture: architecture,
		layers:       [][]file{{{path: rootsFile, mode: 0o644, content: authorities()}}, {{path: "tenantry", mode: 0o755, content: binary}}},
		config:       v1.Config{Entrypoint: []string{"/tenantry"}, User: user, WorkingDir: "/"},
	}
}

// image is an image for several architectures.
type image struct {
	index v1.ImageIndex
	// of has the image of each architecture, in the order of the index.
	of []single
}

type single struct {
	v1.Image
	architecture string
}

// build makes an image. created is the only time in it.
func build(contents []content, created time.Time) (image, error) {
	made := image{index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	for _, c := range contents {
		one, err := assemble(c, created)
		if err != nil {
			return image{}, fmt.Errorf("assembling the image for %s: %w", c.architecture, err)
		}
		made.of = append(made.of, single{one, c.architecture})
		made.index = mutate.AppendManifests(made.index, mutate.IndexAddendum{
			Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: c.architecture}},
		})
	}
	return made, nil
}

func assemble(c content, created time.Time) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: c.architecture, Created: v1.Time{Time: created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: c.config,
	})
	if err != nil {
		return nil, err
	}
	adds := make([]mutate.Addendum, len(c.layers))
	for i, files := range c.layers {
		packed, err := layer(files)
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", files[0].path, err)
		}
		adds[i] = mutate.Addendum{Layer: packed, History: v1.History{CreatedBy: "make image", Created: v1.Time{Time: created}}}
	}
	return mutate.Append(base, adds...)
}

type file struct {
	path    string
	mode    int64
	content []byte
	// link is where a symbolic link leads to.
	link      string
	directory bool
}

func (f file) header() *tar.Header {
	header := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	switch {
	case f.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
	case f.directory:
		header.Typeflag, header.Name = tar.TypeDir, f.path+"/"
	}
	return header
}

// layer packs files, of root and of no time.
func layer(files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		if err := w.WriteHeader(f.header()); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// authorities returns the roots that are trusted without a condition, as PEM.
func authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return all.Bytes()
}
