// Package spaceclient has the clients with which the manager reads and writes in spaces, by plain
// names, and says how it replaces and removes what others may have changed there.
package spaceclient
