package tenant

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

func TestRequestsEndWithTheirTenant(t *testing.T) {
	named := func(name, uid string) *v1alpha1.Tenant {
		return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	}
	suspended := named("acme", "1")
	suspended.Spec.Suspended = true
	for name, tc := range map[string]struct {
		event  func(l *Lookup)
		system bool
		ends   bool
	}{
		"changed":                     {event: func(l *Lookup) { l.Set(named("acme", "1")) }},
		"read again":                  {event: func(l *Lookup) { l.Replace([]*v1alpha1.Tenant{named("acme", "1")}) }},
		"suspended":                   {event: func(l *Lookup) { l.Set(suspended) }, ends: true},
		"suspended, of the system":    {event: func(l *Lookup) { l.Set(suspended) }, system: true},
		"read again, and suspended":   {event: func(l *Lookup) { l.Replace([]*v1alpha1.Tenant{suspended}) }, ends: true},
		"deleted, of the system":      {event: func(l *Lookup) { l.Delete(named("acme", "1")) }, system: true, ends: true},
		"another is deleted":          {event: func(l *Lookup) { l.Delete(named("other", "1")) }},
		"an earlier one is deleted":   {event: func(l *Lookup) { l.Delete(named("acme", "0")) }},
		"deleted":                     {event: func(l *Lookup) { l.Delete(named("acme", "1")) }, ends: true},
		"followed by another":         {event: func(l *Lookup) { l.Set(named("acme", "2")) }, ends: true},
		"read again, and gone":        {event: func(l *Lookup) { l.Replace([]*v1alpha1.Tenant{named("other", "1")}) }, ends: true},
		"read again, and another one": {event: func(l *Lookup) { l.Replace([]*v1alpha1.Tenant{named("acme", "2")}) }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewLookup(&Storage{})
			l.Set(named("acme", "1"))
			l.Set(named("other", "1"))
			ctx, release := l.Bind(t.Context(), "acme", "1", tc.system)
			second, releaseSecond := l.Bind(t.Context(), "acme", "1", tc.system)
			releaseSecond()
			if second.Err() == nil || ctx.Err() != nil {
				t.Errorf("a request that is done: %v, one that runs: %v", second.Err(), ctx.Err())
			}
			tc.event(l)
			if tc.ends {
				<-ctx.Done()
				if err := context.Cause(ctx); !errors.Is(err, errGone) {
					t.Errorf("it ends by %v", err)
				}
			} else if ctx.Err() != nil {
				t.Errorf("it ends by %v", context.Cause(ctx))
			}
			release()
			if len(l.requests.of) > 0 {
				t.Errorf("without requests there is %v", l.requests.of)
			}
		})
	}
}

func TestRequestsOfATenantThatIsGoneEndAtOnce(t *testing.T) {
	l := NewLookup(&Storage{})
	l.Set(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "2"}})
	ctx, release := l.Bind(t.Context(), "acme", "1", false)
	defer release()
	if !errors.Is(context.Cause(ctx), errGone) {
		t.Errorf("it ends by %v", context.Cause(ctx))
	}
}
