// Package held says what pods of spaces may hold on a host cluster beyond what they ask for, and what
// their status shows.
//
// A quota frees resources at once when a pod asks for less. The host hears of that later, and a node may make the
// request before it at any moment: a resize waits for room there, or is on its way. So what a pod asked for before a
// resize to less is noted on it, and counted, until its status says that the host has made the last of its requests.
package held
