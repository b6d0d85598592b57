package flowcontrol

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/process/files"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestUsersKeepTheirConnections checks that strangers end no connection of a user while these are three quarters of all
// at most, and none of this process, which is not counted. Others are, whatever their names are.
func TestUsersKeepTheirConnections(t *testing.T) {
	const office, elsewhere = "10.0.0.1", "10.0.1."
	l := WithConnections(accepts{}, 4).(*listener)
	process := &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	impostor := &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.AllAuthenticated}}
	// enter returns the connection that is ended for a new one with requests of a user.
	enter := func(from string, u *user.DefaultInfo) *connection {
		dialed := newDialed(from)
		c := &connection{Conn: dialed, listener: l, from: ratelimit.Network(dialed.RemoteAddr().String())}
		closed := l.enter(c)
		for range 2 {
			ctx := tenant.WithRequest(context.WithValue(t.Context(), http.LocalAddrContextKey, address{of: c}), &tenant.Request{Own: u == process})
			recognize(request.WithUser(ctx, u))
		}
		return closed
	}
	for i, one := range []*user.DefaultInfo{jane, impostor, jane} {
		for _, u := range []*user.DefaultInfo{process, one} {
			if closed := enter(office, u); closed != nil {
				t.Fatalf("of %d of %q, %v is ended", i, u.Name, closed.from)
			}
		}
	}
	for i := range 5 {
		closed := enter(fmt.Sprint(elsewhere, i), anonymous)
		if ended := closed != nil; ended != (i > 0) || ended && closed.from.Addr().String() == office {
			t.Fatalf("for stranger %d, %v is ended", i, closed)
		}
	}
	if l.users.size != 3 || l.unauthenticated.size != 1 {
		t.Errorf("%d connections of users, %d of others", l.users.size, l.unauthenticated.size)
	}
	l.unauthenticated.leave(slices.Collect(maps.Keys(l.unauthenticated.fullest()))[0])
	if closed := enter(office, jane); closed != nil {
		t.Errorf("for a fourth one, %v is ended", closed)
	}
	if closed := enter(elsewhere+"1", anonymous); closed == nil || closed.from.Addr().String() != office {
		t.Errorf("of users who have all, %v is ended", closed)
	}
}

// TestConnections checks whose connections are closed when there are as many as there may be: three.
func TestConnections(t *testing.T) {
	const a, b, c = "10.0.0.1", "10.0.0.2", "10.0.0.3"
	for name, tc := range map[string]struct {
		from   []string
		leaves int // how many of the first end before the last one comes
		last   string
		open   map[string]int
	}{
		"a place":                {[]string{a, a}, 0, a, map[string]int{a: 3}},
		"a place again":          {[]string{a, a, a}, 1, a, map[string]int{a: 3}},
		"one has all":            {[]string{a, a, a}, 0, a, map[string]int{a: 3}},
		"another one":            {[]string{a, a, a}, 0, b, map[string]int{a: 2, b: 1}},
		"another has as many":    {[]string{a, a, b}, 0, b, map[string]int{a: 2, b: 1}},
		"a third one":            {[]string{a, b, b}, 0, c, map[string]int{a: 1, b: 1, c: 1}},
		"a network of IPv6":      {[]string{"2001:db8::1", "2001:db8::2", "2001:db8::3"}, 0, "2001:db8::4", map[string]int{"2001:db8::1": 1, "2001:db8::2": 1, "2001:db8::3": 1}},
		"other networks":         {[]string{"2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}, 0, "2001:db8:0:2::1", map[string]int{"2001:db8:0:1::1": 1, "2001:db8:0:2::1": 1, "": 1}},
		"addresses of IPv4 as 6": {[]string{"::ffff:10.0.0.1", a, b}, 0, c, map[string]int{b: 1, c: 1, "": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			from := make(chan *dialed, 10)
			l := WithConnections(accepts{from: from}, 3)
			open := []*dialed{}
			accept := func(from ...*dialed) (accepted []net.Conn) {
				for range from {
					conn, err := l.Accept()
					if err != nil {
						return accepted
					}
					accepted = append(accepted, conn)
				}
				return accepted
			}
			for _, address := range tc.from {
				open = append(open, newDialed(address))
				from <- open[len(open)-1]
			}
			for i, conn := range accept(open...) {
				if i < tc.leaves {
					_ = conn.Close()
					_ = conn.Close() // as net/http may do
				}
			}
			last := newDialed(tc.last)
			open = append(open[tc.leaves:], last)
			from <- last
			close(from) // if it has no place
			accept(last)
			counts := map[string]int{}
			for _, d := range slices.DeleteFunc(open, func(d *dialed) bool { return d.closed }) {
				if _, wanted := tc.open[d.from]; wanted {
					counts[d.from]++
				} else {
					counts[""]++
				}
			}
			if diff := cmp.Diff(tc.open, counts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// dialed is a connection from an address.
type dialed struct {
	net.Conn
	from   string
	closed bool
}

func newDialed(from string) *dialed { return &dialed{from: from} }

func (d *dialed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(d.from), 1234))
}

func (d *dialed) Close() error {
	d.closed = true
	return nil
}

// accepts is a listener of what was dialed.
type accepts struct {
	net.Listener
	from chan *dialed
}

func (a accepts) Accept() (net.Conn, error) {
	if d, ok := <-a.from; ok {
		return d, nil
	}
	return nil, net.ErrClosed
}

// TestManyConnections checks that there are not so many connections that nothing else of the process has files.
func TestManyConnections(t *testing.T) {
	all := files.Most()
	for connections, want := range map[int]bool{-1: false, 0: true, 1: false, leastConnections: true, all * 3 / 4: true, all*3/4 + 1: false} {
		o := NewOptions()
		o.Connections = connections
		if errs := o.Validate(); (len(errs) == 0) != want || !want && !strings.Contains(errs[0].Error(), "raise their limit (ulimit -n) first") {
			t.Errorf("%d of %d files: %v", connections, all, errs)
		}
	}
}
