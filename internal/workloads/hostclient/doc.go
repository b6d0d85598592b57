// Package hostclient says by which credentials a process acts on a host cluster. It must not know what the process does
// there.
package hostclient
