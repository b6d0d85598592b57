// Package controllers tests the upstream controllers in two tenants' spaces and
// the system space at once, against a real server.
package controllers
