package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const name = "registry.example/tenantry:v1"

// packed packs two binaries and returns the tarball.
func packed(t *testing.T, created string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-o", filepath.Join(dir, "dist", "image.tar"), "-name", name, "-time", created}
	for _, architecture := range []string{"amd64", "arm64"} {
		binary := filepath.Join(dir, architecture)
		if err := os.WriteFile(binary, []byte("for "+architecture), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, architecture+"="+binary)
	}
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	return args[1]
}

func TestSameBytes(t *testing.T) {
	first, err := os.ReadFile(packed(t, "1700000000"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(packed(t, "1700000000"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the same binaries make different images")
	}
	other, err := os.ReadFile(packed(t, "1700000001"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first, other) {
		t.Error("the time is not in the image")
	}
}

// TestLayout checks what containerd reads.
func TestLayout(t *testing.T) {
	dir := unpack(t, packed(t, "1700000000"))
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations[nameAnnotation] != name {
		t.Fatalf("the layout has %+v", manifest.Manifests)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var architectures []string
	for _, descriptor := range manifest.Manifests {
		one, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		architectures = append(architectures, descriptor.Platform.Architecture)
		checkContent(t, one, descriptor.Platform.Architecture)
	}
	if want := []string{"amd64", "arm64"}; !slices.Equal(architectures, want) {
		t.Errorf("got architectures %v, want %v", architectures, want)
	}
}

// TestDocker checks what "docker load" reads.
func TestDocker(t *testing.T) {
	tarred := packed(t, "1700000000")
	content, err := os.ReadFile(filepath.Join(unpack(t, tarred), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest tarball.Manifest
	if err := json.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{name + "-amd64", name}, {name + "-arm64"}}
	if len(manifest) != len(want) {
		t.Fatalf("got %d images", len(manifest))
	}
	there := files(t, tarred)
	for i, entry := range manifest {
		if !slices.Equal(entry.RepoTags, want[i]) {
			t.Errorf("got the names %v, want %v", entry.RepoTags, want[i])
		}
		for _, named := range append(entry.Layers, entry.Config) {
			if there[named] == nil {
				t.Errorf("%s is not in the tarball", named)
			}
		}
	}
}

func checkContent(t *testing.T, one v1.Image, architecture string) {
	t.Helper()
	config, err := one.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != architecture || config.Config.User != user {
		t.Errorf("got an image for %s that runs as %q", config.Architecture, config.Config.User)
	}
	layers, err := one.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content := map[string][]byte{}
	for _, l := range layers {
		from, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(content, entries(t, from))
	}
	if got := string(content["tenantry"]); got != "for "+architecture {
		t.Errorf("the image for %s has the binary %q", architecture, got)
	}
	if got := strings.Count(string(content[rootsFile]), "BEGIN CERTIFICATE"); got < 100 {
		t.Errorf("the image has %d roots of certificates", got)
	}
}

func unpack(t *testing.T, tarred string) string {
	t.Helper()
	dir := t.TempDir()
	for file, content := range files(t, tarred) {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func files(t *testing.T, tarred string) map[string][]byte {
	t.Helper()
	from, err := os.Open(tarred)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	return entries(t, from)
}

func entries(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	r := tar.NewReader(from)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if found[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBundle checks that the image has what OLM reads of the project's bundle.
func TestBundle(t *testing.T) {
	tarred := filepath.Join(t.TempDir(), "bundle.tar")
	if err := run([]string{"-o", tarred, "-name", name, "-bundle", "../../bundle", "amd64", "arm64"}); err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(unpack(t, tarred))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 2 {
		t.Fatalf("the image is for %d architectures, want 2", len(manifest.Manifests))
	}
	for _, descriptor := range manifest.Manifests {
		one, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := one.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.Config.Labels["operators.operatorframework.io.bundle.package.v1"]; got != "tenantry" {
			t.Errorf("the image is labelled with package %q", got)
		}
		layers, err := one.Layers()
		if err != nil {
			t.Fatal(err)
		}
		from, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		there := entries(t, from)
		for _, file := range []string{"manifests/tenantry.clusterserviceversion.yaml", annotationsFile} {
			want, err := os.ReadFile(filepath.Join("../../bundle", file))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(there[file], want) {
				t.Errorf("%s is not in the image as it is in the bundle", file)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"usage: image":                 {"-o", "x"},
		`"amd64" is not ARCHITECTURE=`: {"-o", "x", "-name", name, "amd64"},
		"is no OLM bundle":             {"-o", "x", "-name", name, "-bundle", t.TempDir(), "amd64"},
		"a bundle has no binaries":     {"-o", "x", "-name", name, "-bundle", "../../bundle", "amd64=x"},
		"reading the binary for amd64": {"-o", "x", "-name", name, "amd64=" + filepath.Join(t.TempDir(), "none")},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}

// TestRoot checks that the image has the directory's files, links and modes, and runs what was said.
func TestRoot(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "sh"), []byte("shell"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sh", filepath.Join(root, "bin", "ash")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	contents, err := rooted(root, "/bin/sh -c", "true", []string{"amd64"})
	if err != nil {
		t.Fatal(err)
	}
	if got := contents[0].config; !slices.Equal(got.Entrypoint, []string{"/bin/sh", "-c"}) || !slices.Equal(got.Cmd, []string{"true"}) || got.User != "" {
		t.Errorf("the image runs %q %q as %q", got.Entrypoint, got.Cmd, got.User)
	}
	packed, err := layer(contents[0].layers[0])
	if err != nil {
		t.Fatal(err)
	}
	from, err := packed.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %s", header.FileInfo().Mode(), header.Name, header.Linkname))
	}
	want := []string{"drwx------ bin/ ", "Lrwxrwxrwx bin/ash sh", "-rwx------ bin/sh ", "dtrwxrwxrwx tmp/ "}
	if !slices.Equal(got, want) {
		t.Errorf("the layer has %q, want %q", got, want)
	}
	if _, err := rooted(filepath.Join(root, "tmp"), "", "", []string{"amd64"}); err == nil {
		t.Error("an empty directory makes an image")
	}
}
