package keystone

import "time"

// ForgetLogin makes the client log in again as if its last log-in were long ago.
func ForgetLogin(c *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loggedIn = time.Time{}
}
