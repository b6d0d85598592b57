package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeMaterials writes what a binary has been built of, as the Go toolchain has noted it in
// the binary, in the form of CycloneDX.
func (r release) writeMaterials(name, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	root := component(&info.Main, r.version)
	root.Type = cyclonedx.ComponentTypeApplication
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &root}
	standard := component(&debug.Module{Path: "std"}, info.GoVersion)
	components := []cyclonedx.Component{standard}
	for _, dependency := range info.Deps {
		used := dependency
		if used.Replace != nil {
			used = used.Replace
		}
		components = append(components, component(used, used.Version))
	}
	if len(components) == 1 {
		return fmt.Errorf("%s does not say of what it was built", binary)
	}
	bom.Components = &components
	var content bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&content, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return r.put(name, content.Bytes())
}

// component is a Go module of a version.
func component(module *debug.Module, version string) cyclonedx.Component {
	reference := "pkg:golang/" + module.Path + "@" + version
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: module.Path, Version: version, BOMRef: reference, PackageURL: reference,
	}
}
