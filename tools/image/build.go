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

// program is a binary for an architecture, as Go calls it.
type program struct {
	architecture string
	content      []byte
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

// build makes an image of programs. created is the only time in it.
func build(programs []program, created time.Time) (image, error) {
	made := image{index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	roots, err := layer(file{rootsFile, 0o644, authorities()})
	if err != nil {
		return image{}, fmt.Errorf("packing the roots of certificates: %w", err)
	}
	for _, p := range programs {
		binary, err := layer(file{"tenantry", 0o755, p.content})
		if err != nil {
			return image{}, fmt.Errorf("packing the binary for %s: %w", p.architecture, err)
		}
		one, err := assemble(p.architecture, created, roots, binary)
		if err != nil {
			return image{}, fmt.Errorf("assembling the image for %s: %w", p.architecture, err)
		}
		made.of = append(made.of, single{one, p.architecture})
		made.index = mutate.AppendManifests(made.index, mutate.IndexAddendum{
			Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.architecture}},
		})
	}
	return made, nil
}

func assemble(architecture string, created time.Time, layers ...v1.Layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: architecture, Created: v1.Time{Time: created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/tenantry"}, User: user, WorkingDir: "/"},
	})
	if err != nil {
		return nil, err
	}
	adds := make([]mutate.Addendum, len(layers))
	for i, l := range layers {
		adds[i] = mutate.Addendum{Layer: l, History: v1.History{CreatedBy: "make image", Created: v1.Time{Time: created}}}
	}
	return mutate.Append(base, adds...)
}

type file struct {
	path    string
	mode    int64
	content []byte
}

// layer packs one file, of root and of no time.
func layer(f file) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	header := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(f.content); err != nil {
		return nil, err
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
