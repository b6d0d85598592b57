// Package manifests holds what `make bundle` cannot find elsewhere in config. Its
// test says when bundle/ has to be made anew.
package manifests
