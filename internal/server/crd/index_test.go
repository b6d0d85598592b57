package crd

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

func shared(name, version string, annotations map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, ResourceVersion: version, Annotations: annotations,
		Labels: map[string]string{tenant.PublishedDefinitionLabel: tenant.PublishedCopy},
	}}
}

func own(n tenant.Name, name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{tenant.Annotation: n.String()}}}
}

var isPublished = map[string]string{tenant.PublishedAnnotation: "true"}

func TestIndex(t *testing.T) {
	i := newIndex()
	isClosed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	_, next := i.changes()
	i.set(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "systems.own", ResourceVersion: "1"}})
	i.set(own("acme", "gadgets.example.com"))
	if isClosed(next) || i.wants(tenant.System) || i.shares("systems.own", true) {
		t.Error("the system's own definition is shared")
	}
	i.set(shared("widgets.example.com", "7", isPublished))
	i.set(shared("hidden.example.com", "9", nil))
	i.set(own("acme", "widgets.example.com"))
	last, _ := i.changes()
	if !isClosed(next) || last != 9 {
		t.Errorf("the last change is %d, signalled %v", last, isClosed(next))
	}
	type view struct {
		Names, AcmeExcluded, GlobexExcluded, EndingExcluded []string
		Shared, Hidden, Ever, AcmeOwn, GlobexOwn            bool
	}
	got := view{
		i.names(), i.excluded("acme", false), i.excluded("globex", false), i.excluded("globex", true),
		i.shares("widgets.example.com", false), i.shares("hidden.example.com", false), i.shares("hidden.example.com", true),
		i.defines("acme", "widgets.example.com"), i.defines("globex", "widgets.example.com"),
	}
	want := view{
		[]string{"widgets.example.com"}, []string{"hidden.example.com", "widgets.example.com"}, []string{"hidden.example.com"}, nil,
		true, false, true, true, false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, next = i.changes()
	deleted := shared("hidden.example.com", "12", nil)
	deleted.DeletionTimestamp = &metav1.Time{}
	i.set(deleted)
	if !i.isDeleted("hidden.example.com") || !slices.Equal(i.deleted(), []string{"hidden.example.com"}) || !i.shares("hidden.example.com", false) || !isClosed(next) {
		t.Error("a deleted definition is to be seen until its objects are gone")
	}
	i.unset(deleted)
	i.unset(own("acme", "widgets.example.com"))
	if i.shares("hidden.example.com", true) || i.defines("acme", "widgets.example.com") || !i.wants("acme") {
		t.Error("what is gone is still known, or more is gone")
	}
}

func TestIndexReplace(t *testing.T) {
	i := newIndex()
	i.set(shared("gone.example.com", "3", isPublished))
	i.set(own("acme", "gone.example.com"))
	i.replace([]*metav1.PartialObjectMetadata{shared("kept.example.com", "2", isPublished), own("globex", "kept.example.com")}, "8")
	last, _ := i.changes()
	if diff := cmp.Diff([]string{"kept.example.com"}, i.names()); diff != "" || last != 8 || i.wants("acme") || !i.defines("globex", "kept.example.com") {
		t.Errorf("last %d, acme %v: %s", last, i.wants("acme"), diff)
	}
	i.replace(nil, "9")
	if last, _ := i.changes(); last != 9 || i.wants(tenant.System) || len(i.names()) > 0 {
		t.Errorf("last %d, there is still %v", last, i.names())
	}
}
