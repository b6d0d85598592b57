// Package discovery routes the requests of a space to what serves them there,
// and tells what a space serves: the built-in resources and its own custom
// resources, never those of another space.
package discovery
