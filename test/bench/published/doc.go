// Command published measures how long objects take that are published to many
// spaces: all copies of them, edits, an edit during which the process is killed, a
// restart that has nothing to do, a new tenant, and their removal.
package main
