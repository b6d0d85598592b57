package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write makes a release of this test's own binary.
func write(t *testing.T, at time.Time) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := release{version: "v1.2.3", root: "../..", dir: filepath.Join(t.TempDir(), "dist"), time: at}
	if err := r.write([]string{"linux-amd64=" + binary}); err != nil {
		t.Fatal(err)
	}
	return r.dir
}

func TestRelease(t *testing.T) {
	dir := write(t, time.Unix(1, 0).UTC())
	var got []string
	for name := range contents(t, dir) {
		got = append(got, name)
	}
	want := []string{
		"SHA256SUMS", "install.yaml", "tenantry-1.2.3.tgz", "tenantry-bundle-v1.2.3.tar.gz", "tenantry-v1.2.3-linux-amd64.cdx.json", "tenantry-v1.2.3-linux-amd64.tar.gz",
		"workloads.yaml",
	}
	if diff := cmp.Diff(want, got, sorted); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", sums)
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("the sums are not right: %v\n%s", err, out)
	}
	for archive, file := range map[string]string{
		"tenantry-v1.2.3-linux-amd64.tar.gz": "tenantry",
		"tenantry-1.2.3.tgz":                 "tenantry/Chart.yaml",
		"tenantry-bundle-v1.2.3.tar.gz":      "bundle/metadata/annotations.yaml",
	} {
		header := find(t, filepath.Join(dir, archive), file)
		if executable := header.Mode&0o111 != 0; executable != (file == "tenantry") {
			t.Errorf("%s in %s has mode %o", file, archive, header.Mode)
		}
	}
	var materials struct {
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ PURL string }
	}
	content, err := os.ReadFile(filepath.Join(dir, "tenantry-v1.2.3-linux-amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &materials); err != nil {
		t.Fatal(err)
	}
	if materials.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("the bill of materials is for version %q", materials.Metadata.Component.Version)
	}
	found := false
	for _, component := range materials.Components {
		found = found || strings.HasPrefix(component.PURL, "pkg:golang/sigs.k8s.io/kustomize/api@v")
	}
	if !found {
		t.Errorf("the bill of materials lacks a module of the binary: %v", materials.Components)
	}
}

// TestReproducible checks that the same commit gives the same bytes, and that its time counts.
func TestReproducible(t *testing.T) {
	one, same, other := contents(t, write(t, time.Unix(1, 0).UTC())), contents(t, write(t, time.Unix(1, 0).UTC())), contents(t, write(t, time.Unix(2, 0).UTC()))
	if diff := cmp.Diff(one, same); diff != "" {
		t.Errorf("two releases of one commit differ:\n%s", diff)
	}
	if cmp.Equal(one, other) {
		t.Error("the time of the commit is not in the release")
	}
}

func TestNoMaterials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(file, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := release{version: "v1.2.3", root: "../..", dir: t.TempDir()}
	if err := r.write([]string{"linux-amd64=" + file}); err == nil || !strings.Contains(err.Error(), "packing the binary for linux-amd64") {
		t.Errorf("error %v", err)
	}
	if err := r.write([]string{file}); err == nil || !strings.Contains(err.Error(), "is not OS-ARCHITECTURE=BINARY") {
		t.Errorf("error %v", err)
	}
}

var sorted = cmp.Transformer("sorted", func(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
})

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(content)
	}
	return all
}

// find returns the header of a file in an archive.
func find(t *testing.T, archive, name string) *tar.Header {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s lacks %s", archive, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == name {
			return header
		}
	}
}
