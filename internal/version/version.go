package version

import (
	"runtime"
	"runtime/debug"
)

// Version is that of the project: of the last release, or of the one to come. Manifests
// must have the same.
const Version = "v0.2.0"

// commit is set by the Makefile's flags. Otherwise the Go toolchain has noted it, if it
// built from a checkout.
var commit string

// Info is what "tenantry version" prints.
type Info struct {
	Version string `json:"version"`
	// Commit is that of the source, empty if it is not known.
	Commit string `json:"commit,omitempty"`
	// Modified is true if the source was not as in the commit.
	Modified   bool   `json:"modified,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

// Get returns what is known of this binary.
func Get() Info {
	info := Info{Version: Version, Commit: commit, Kubernetes: Kubernetes(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, setting := range build.Settings {
		switch {
		case setting.Key == "vcs.revision" && info.Commit == "":
			info.Commit = setting.Value
		case setting.Key == "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	return info
}

// Kubernetes is the version of the Kubernetes libraries in this binary, as the Go
// toolchain has noted it, or empty.
func Kubernetes() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dependency := range info.Deps {
		if dependency.Path == "k8s.io/kubernetes" {
			return dependency.Version
		}
	}
	return ""
}
