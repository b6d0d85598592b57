package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// object says which object something is.
type object struct {
	resource        schema.GroupResource
	namespace, name string
}

// subject is a user who asks.
type subject struct {
	of     tenant.Name
	user   string
	groups []string
	config *rest.Config
}

// world is the spaces of the oracle, with clients of a system administrator.
type world struct {
	random   *rand.Rand
	spaces   map[tenant.Name]*space
	order    []tenant.Name
	subjects []subject
	// suspended are the tenants that are.
	suspended map[tenant.Name]bool
}

// space is one of them.
type space struct {
	config    *rest.Config
	objects   dynamic.Interface
	client    *kubernetes.Clientset
	resources []schema.GroupVersionResource
}

var (
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	gadgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	globals = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "globals"}
)

// The tenants of the oracle, which leaves much behind.
const (
	north tenant.Name = "north"
	south tenant.Name = "south"
	west  tenant.Name = "west"
)

// namesOf are the names of objects, the same in all namespaces of all spaces.
var namesOf = []string{"x0", "x1", "x2", "x3"}

// scopedNames are those of what mutateScoped makes.
var scopedNames = []string{"scoped0", "scoped1", "scoped2"}

var namespacesOf = []string{"n0", "n1", "n2"}

// newWorld makes the spaces and subjects.
func newWorld(ctx context.Context, random *rand.Rand) *world {
	GinkgoHelper()
	w := &world{random: random, spaces: map[tenant.Name]*space{}, suspended: map[tenant.Name]bool{}, order: []tenant.Name{tenant.System, north, south, west}}
	tenantry.CreateTenants(ctx, north, south, west)
	admin := tenantry.Config(tenant.System)
	published := suite.NewDefinition(gadgets, "Gadget", apiextensionsv1.NamespaceScoped)
	published.Annotations = map[string]string{tenant.PublishedAnnotation: tenant.PublishedTrue}
	w.define(ctx, admin, published)
	for _, n := range w.order {
		config := tenantry.In(n, admin)
		s := &space{config: config, objects: suite.Dynamic(config), client: suite.Client(config)}
		w.spaces[n] = s
		for _, namespace := range namespacesOf {
			_, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		switch n {
		case north:
			w.define(ctx, config, suite.NewDefinition(widgets, "Widget", apiextensionsv1.NamespaceScoped))
		case south: // the same resource, with another scope
			w.define(ctx, config, suite.NewDefinition(widgets, "Widget", apiextensionsv1.ClusterScoped))
			w.define(ctx, config, suite.NewDefinition(globals, "Global", apiextensionsv1.ClusterScoped))
		}
		Eventually(func() ([]schema.GroupVersionResource, error) { return listable(s.client.Discovery(), n) }).
			Should(ContainElement(gadgets))
		var err error
		s.resources, err = listable(s.client.Discovery(), n)
		Expect(err).NotTo(HaveOccurred())
	}
	letSystemUsersSearch(ctx, w.spaces[tenant.System].client)
	w.addSubjects(ctx)
	return w
}

// letSystemUsersSearch lets them search in tenants' spaces, where they find what they may list.
func letSystemUsersSearch(ctx context.Context, client *kubernetes.Clientset) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Name: "searchers", Annotations: map[string]string{tenant.ScopeAnnotation: "Tenants"}}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{search.Path, search.GraphQLPath}, Verbs: []string{"get", "post"}}}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { // other specs look at users who have no such right, nor what mutateScoped gives them
		for _, name := range append([]string{meta.Name}, scopedNames...) {
			for _, err := range []error{client.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}), client.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})} {
				if !apierrors.IsNotFound(err) {
					Expect(err).NotTo(HaveOccurred(), name)
				}
			}
		}
	})
}

func (w *world) define(ctx context.Context, config *rest.Config, definition *apiextensionsv1.CustomResourceDefinition) {
	GinkgoHelper()
	client := suite.Definitions(config)
	_, err := client.Create(ctx, definition, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.Delete(ctx, definition.Name, metav1.DeleteOptions{})).To(Succeed())
	})
	Eventually(func() bool {
		found, err := client.Get(ctx, definition.Name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(found.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
	}).Should(BeTrue())
}

// unstored are resources whose objects are made when they are asked for, and second names of others.
func unstored(resource schema.GroupResource, n tenant.Name) bool {
	switch resource.String() {
	case "componentstatuses", "events.events.k8s.io", "tenants":
		return true
	case "apiservices.apiregistration.k8s.io":
		return n.IsSpace()
	default:
		return false
	}
}

// listable returns what can be listed in a space.
func listable(client discovery.DiscoveryInterface, n tenant.Name) ([]schema.GroupVersionResource, error) {
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	var resources []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if gvr := gv.WithResource(resource.Name); slices.Contains(resource.Verbs, "list") && !unstored(gvr.GroupResource(), n) {
				resources = append(resources, gvr)
			}
		}
	}
	return resources, nil
}

// addSubjects makes 50 users: with groups, without, service accounts, and one who may do everything.
func (w *world) addSubjects(ctx context.Context) {
	GinkgoHelper()
	for _, n := range w.order {
		for i := range 11 {
			s := subject{of: n, user: fmt.Sprintf("u%d", i), groups: []string{"system:authenticated"}}
			for g := range 4 {
				if w.random.IntN(4) == 0 {
					s.groups = append(s.groups, fmt.Sprintf("g%d", g))
				}
			}
			s.config = tenantry.User(n, s.user, s.groups[1:]...)
			w.subjects = append(w.subjects, s)
		}
		s := w.spaces[n]
		account, err := s.client.CoreV1().ServiceAccounts("n0").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		token, err := s.client.CoreV1().ServiceAccounts("n0").CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		config := rest.AnonymousClientConfig(tenantry.In(n, s.config))
		config.BearerToken, config.QPS = token.Status.Token, -1
		w.subjects = append(w.subjects, subject{of: n, user: "system:serviceaccount:n0:sa", config: config,
			groups: []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:n0"}})
	}
	w.subjects = append(w.subjects,
		subject{of: tenant.System, user: "root", groups: []string{"system:authenticated", "system:masters"}, config: tenantry.User(tenant.System, "root", "system:masters")},
		subject{of: north, user: "nobody", groups: []string{"system:authenticated"}, config: tenantry.User(north, "nobody")})
}

// contents are objects by what they are.
type contents map[object]*unstructured.Unstructured

// list returns all objects of a space.
func (w *world) list(ctx context.Context, n tenant.Name) (contents, error) {
	s, found := w.spaces[n], contents{}
	var mu sync.Mutex
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(8)
	for _, resource := range s.resources {
		all.Go(func() error {
			list, err := s.objects.Resource(resource).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("listing %s in %s: %w", resource, n, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range list.Items {
				item := &list.Items[i]
				found[object{resource.GroupResource(), item.GetNamespace(), item.GetName()}] = item
			}
			return nil
		})
	}
	return found, all.Wait()
}

// allowed returns those of objects of a space that a subject may list, by reviews of the server's authorizer,
// one for each object.
func (w *world) allowed(ctx context.Context, who subject, n tenant.Name, objects contents) (sets.Set[object], error) {
	s, may := w.spaces[n], sets.New[object]()
	if w.suspended[n] && who.of != tenant.System {
		return may, nil // nobody but the platform is let in
	}
	var mu sync.Mutex
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(8)
	for o := range objects {
		all.Go(func() error {
			for _, served := range servedAs(o.resource) {
				review, err := s.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
					Spec: authorizationv1.SubjectAccessReviewSpec{
						User: who.user, Groups: who.groups,
						Extra: map[string]authorizationv1.ExtraValue{tenant.UserExtraKey: {who.of.String()}},
						ResourceAttributes: &authorizationv1.ResourceAttributes{
							Verb: "list", Group: served.Group, Resource: served.Resource, Namespace: o.namespace, Name: o.name,
						},
					},
				}, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				if review.Status.Allowed {
					mu.Lock()
					may.Insert(o)
					mu.Unlock()
				}
			}
			return nil
		})
	}
	return may, all.Wait()
}

// servedAs returns the names by which objects can be listed.
func servedAs(resource schema.GroupResource) []schema.GroupResource {
	switch resource.String() {
	case "events":
		return []schema.GroupResource{resource, {Group: "events.k8s.io", Resource: "events"}}
	case "tenants.tenantry.io":
		return []schema.GroupResource{resource, {Resource: "tenants"}}
	default:
		return []schema.GroupResource{resource}
	}
}

// found returns what a subject finds in a space.
func (w *world) found(ctx context.Context, who subject, n tenant.Name, minRevision string) (sets.Set[object], error) {
	answer, err := try(ctx, tenantry.In(n, who.config), "", minRevision)
	if err != nil {
		return nil, err
	}
	objects := sets.New[object]()
	for _, item := range answer.Items {
		if item.Space != n.String() {
			return nil, fmt.Errorf("an item of space %q", item.Space)
		}
		objects.Insert(object{schema.GroupResource{Group: item.APIGroup, Resource: item.Resource}, item.Namespace, item.Name})
	}
	return objects, nil
}

func newObject(gvr schema.GroupVersionResource, kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range content {
		o.Object[key] = value
	}
	o.SetAPIVersion(gvr.GroupVersion().String())
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
