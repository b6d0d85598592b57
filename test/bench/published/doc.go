// Command published measures how long objects take that are published to many
// spaces: all copies of them, edits, an edit during which the process is killed, a
// restart that has nothing to do, a new tenant, and their removal.
//
// With -kill it measures little: it kills the process again and again while objects
// and tenants come, change and go, and then reads every copy in every space.
package main
