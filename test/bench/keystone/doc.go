// Command keystone measures what a KeystoneSync takes, with a fake Keystone of a thousand
// domains:
//
//	go run ./test/bench/keystone
//
// The controller runs in this process, and the server and all other controllers in another.
package main
