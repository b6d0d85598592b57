// Package planeclient has the configurations with which the operator connects to the servers of a ControlPlane. These
// may be slow, gone or taken over: it bounds how long they are waited for, by how many workers, and how much of an
// answer is read, and follows no redirect. It must not know what is asked.
package planeclient
