package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"
)

// annotationsFile says to OLM what a bundle is. The labels of its image say the same.
const annotationsFile = "metadata/annotations.yaml"

// bundled returns the content of the image of an OLM bundle, which is the same for each
// architecture.
func bundled(dir string, architectures []string) ([]content, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		files = append(files, file{path: filepath.ToSlash(below), mode: 0o644, content: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the bundle: %w", err)
	}
	config := v1.Config{User: user}
	for _, f := range files {
		if f.path != annotationsFile {
			continue
		}
		var metadata struct{ Annotations map[string]string }
		if err := yaml.Unmarshal(f.content, &metadata); err != nil {
			return nil, fmt.Errorf("reading %s of the bundle: %w", annotationsFile, err)
		}
		config.Labels = metadata.Annotations
	}
	if len(config.Labels) == 0 {
		return nil, fmt.Errorf("%s is no OLM bundle: it has no annotations in %s", dir, annotationsFile)
	}
	var contents []content
	for _, architecture := range architectures {
		if strings.Contains(architecture, "=") {
			return nil, fmt.Errorf("%q is no architecture: a bundle has no binaries", architecture)
		}
		contents = append(contents, content{architecture, [][]file{files}, config})
	}
	return contents, nil
}
