// Package samples holds manifests to start from.
package samples
