// Command bump moves the modules of the repository to a version of Kubernetes.
//
//	bump ROOT v1.MINOR.PATCH
//
// What k8s.io/kubernetes itself requires is the measure: its staging modules are
// required, and put in the place of its v0.0.0, at v0.MINOR.PATCH; every other
// module that it names gets its version, if that is newer than ours. Modules that
// follow Kubernetes on their own get their newest version for the minor. Nothing
// is tidied here: `go mod tidy` may find that code has to change first.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

const (
	kubernetes = "k8s.io/kubernetes"
	measure    = "k8s.io/apimachinery"
	// unpublished is the version of the staging modules in upstream's own go.mod.
	unpublished = "v0.0.0"
)

// followers are released for minor versions of Kubernetes, with numbers of their own.
var followers = []string{"sigs.k8s.io/controller-runtime", "sigs.k8s.io/controller-tools"}

func main() {
	if len(os.Args) != 3 || !semver.IsValid(os.Args[2]) {
		fmt.Fprintln(os.Stderr, "usage: bump ROOT v1.MINOR.PATCH")
		os.Exit(2)
	}
	if err := bump(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func bump(root, version string) error {
	wanted, err := requirements(version)
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "go.mod" {
			return err
		}
		return edit(path, wanted)
	})
}

// release is what a version of Kubernetes wants of those who import it.
type release struct {
	upstream *modfile.File
	// versions are those of all modules that it names, of itself and of followers.
	versions map[string]string
	staging  []module.Version
}

func requirements(version string) (*release, error) {
	upstream, err := goMod(kubernetes, version)
	if err != nil {
		return nil, err
	}
	r := &release{upstream: upstream, versions: map[string]string{kubernetes: version}}
	published := "v0" + strings.TrimPrefix(version, "v1")
	for _, require := range upstream.Require {
		r.versions[require.Mod.Path] = require.Mod.Version
		if require.Mod.Version == unpublished {
			r.versions[require.Mod.Path] = published
			r.staging = append(r.staging, module.Version{Path: require.Mod.Path, Version: published})
		}
	}
	for _, path := range followers {
		if r.versions[path], err = newestFor(path, published); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// newestFor returns the newest version of a module that requires the same minor
// version of the staging modules.
func newestFor(path, published string) (string, error) {
	out, err := run("list", "-m", "-versions", "-json", path)
	if err != nil {
		return "", err
	}
	var listed struct{ Versions []string }
	if err := json.Unmarshal(out, &listed); err != nil {
		return "", err
	}
	for _, version := range slices.Backward(listed.Versions) {
		if semver.Prerelease(version) != "" {
			continue
		}
		file, err := goMod(path, version)
		if err != nil {
			return "", err
		}
		for _, require := range file.Require {
			if require.Mod.Path == measure && semver.MajorMinor(require.Mod.Version) == semver.MajorMinor(published) {
				return version, nil
			}
		}
	}
	return "", fmt.Errorf("no version of %s requires %s %s yet", path, measure, semver.MajorMinor(published))
}

// edit moves one go.mod, if it is about Kubernetes at all.
func edit(path string, wanted *release) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := modfile.Parse(path, data, nil)
	if err != nil {
		return err
	}
	whole, some := false, false
	for _, require := range file.Require {
		whole = whole || require.Mod.Path == kubernetes
		some = some || require.Mod.Path == measure
	}
	if !whole && !some {
		return nil
	}
	for _, require := range slices.Clone(file.Require) {
		version, ok := wanted.versions[require.Mod.Path]
		// Ours that nobody here imports are replaced all the same.
		if ok && semver.Compare(version, require.Mod.Version) > 0 && require.Mod.Version != unpublished {
			if err := file.AddRequire(require.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	if whole {
		if err := follow(file, wanted); err != nil {
			return err
		}
	}
	file.Cleanup()
	edited, err := file.Format()
	if err != nil || bytes.Equal(edited, data) {
		return err
	}
	fmt.Println("edited", path)
	return os.WriteFile(path, edited, 0o644)
}

// follow takes what the go command takes from the main module alone: replacements,
// Go's version and its compatibility.
func follow(file *modfile.File, wanted *release) error {
	for _, staging := range wanted.staging {
		if err := file.AddReplace(staging.Path, "", staging.Path, staging.Version); err != nil {
			return err
		}
	}
	for _, setting := range wanted.upstream.Godebug {
		if err := file.AddGodebug(setting.Key, setting.Value); err != nil {
			return err
		}
	}
	if upstream := wanted.upstream.Go.Version; semver.Compare("v"+upstream, "v"+file.Go.Version) > 0 {
		return file.AddGoStmt(upstream)
	}
	return nil
}

// goMod returns the go.mod of a published module.
func goMod(path, version string) (*modfile.File, error) {
	out, err := run("mod", "download", "-json", path+"@"+version)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ GoMod string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(downloaded.GoMod)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(downloaded.GoMod, data, nil)
}

func run(arguments ...string) ([]byte, error) {
	command := exec.Command("go", arguments...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s%s", strings.Join(arguments, " "), err, stderr.Bytes(), out)
	}
	return out, nil
}
