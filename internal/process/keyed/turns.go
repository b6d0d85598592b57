package keyed

import (
	"context"
	"errors"
)

// ErrTooMany is that as many wait as may.
var ErrTooMany = errors.New("too many wait for their turn")

// Turns has the users of one key wait for each other.
type Turns[K comparable] struct {
	// Each is how many of one key have a turn at once, and Waiting how many more of it wait for one: zero for any number.
	Each, Waiting int

	of Map[K, chan struct{}]
}

// Take waits for a turn of a key, and then for a place in each of others, and returns what to call when it is over. Its
// error is ErrTooMany, or that of ctx if that ends first.
func (t *Turns[K]) Take(ctx context.Context, key K, others ...chan struct{}) (release func(), err error) {
	own, users, leave := t.of.Use(key, func() chan struct{} { return make(chan struct{}, t.Each) })
	if t.Waiting > 0 && users > t.Each+t.Waiting {
		leave()
		return nil, ErrTooMany
	}
	wanted, taken := append([]chan struct{}{own}, others...), 0
	release = func() {
		for _, each := range wanted[:taken] {
			<-each
		}
		leave()
	}
	for _, each := range wanted {
		select {
		case each <- struct{}{}:
			taken++
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		}
	}
	return release, nil
}

// Users returns how many have a turn of a key, or wait for one.
func (t *Turns[K]) Users(key K) int { return t.of.Users(key) }

// Len returns of how many keys somebody has a turn or waits.
func (t *Turns[K]) Len() int { return t.of.Len() }
