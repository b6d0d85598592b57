package admission

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	controlplaneadmission "k8s.io/kubernetes/pkg/controlplane/apiserver/admission"
	kubeadmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/tenant"
)

// server is a chain as upstream's options configure it, over a fake of the
// flattened view.
type server struct {
	t         testing.TB
	chain     admission.Interface
	client    *fake.Clientset
	informers informers.SharedInformerFactory
	plugins   map[string]*onDemandPlugin
	perSpace  map[string]*perSpacePlugin
}

// discovering is the fake with what the fake of discovery leaves out.
type discovering struct {
	*fake.Clientset
	config *rest.Config
}

func (d discovering) Discovery() discovery.DiscoveryInterfaces {
	return discovery.NewDiscoveryClientForConfigOrDie(d.config)
}

var loopback = net.IPNet{IP: net.IPv4(127, 0, 0, 0), Mask: net.CIDRMask(8, 32)}

type serverConfig struct {
	objects     []runtime.Object
	terminating func(tenant.Name) bool
	tenantUID   func(tenant.Name) types.UID
	authorizer  authorizer.Authorizer
	loopback    *rest.Config
	enable      []string
	disable     []string
	file        string // --admission-control-config-file
	decorator   admission.DecoratorFunc
	egress      *egress.Options // allows webhooks of the tests by default
}

func newServer(t testing.TB, c serverConfig) *server {
	t.Helper()
	if c.authorizer == nil {
		c.authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	}
	if c.loopback == nil {
		schemas := httptest.NewServer(http.HandlerFunc(serveSchemas))
		t.Cleanup(schemas.Close)
		c.loopback = &rest.Config{Host: schemas.URL}
	}
	if c.egress == nil {
		c.egress = &egress.Options{Allowed: []net.IPNet{loopback}}
	}
	s := &server{t: t, client: fake.NewClientset(c.objects...)}
	s.informers = informers.NewSharedInformerFactory(s.client, 0)
	o := options.NewAdmissionOptions()
	Register(o)
	o.GenericAdmission.EnablePlugins, o.GenericAdmission.DisablePlugins = c.enable, c.disable
	o.GenericAdmission.ConfigFile = c.file
	if errs := o.Validate(); len(errs) > 0 {
		t.Fatal(errs)
	}
	if _, err := Apply(o, Config{
		Informers: s.informers, Client: discovering{s.client, c.loopback}, Loopback: c.loopback, Terminating: c.terminating, TenantUID: c.tenantUID,
		Egress: *c.egress,
		Namespaces: func(name tenant.Flat) (*corev1.Namespace, error) {
			return s.client.CoreV1().Namespaces().Get(t.Context(), name.String(), metav1.GetOptions{})
		},
	}); err != nil {
		t.Fatal(err)
	}

	if c.decorator != nil { // after that of Apply, before that of metrics
		o.GenericAdmission.Decorators = slices.Insert(o.GenericAdmission.Decorators, 1, admission.Decorator(c.decorator))
	}
	s.plugins, s.perSpace = map[string]*onDemandPlugin{}, map[string]*perSpacePlugin{}
	o.GenericAdmission.Decorators = append(admission.Decorators{admission.DecoratorFunc(
		func(plugin admission.Interface, name string) admission.Interface {
			switch p := plugin.(type) {
			case *onDemandPlugin:
				s.plugins[name] = p
			case *perSpacePlugin:
				s.perSpace[name] = p
			}
			return plugin
		})}, o.GenericAdmission.Decorators...)

	generic := genericapiserver.NewConfig(legacyscheme.Codecs)
	generic.Authorization.Authorizer = c.authorizer
	// The informers of the system space alone, as upstream has them, are empty:
	// a plugin that reads them fails its test.
	systemClient := fake.NewClientset()
	system := informers.NewSharedInformerFactory(systemClient, 0)
	controlPlane := controlplaneadmission.Config{ExternalInformers: system, LoopbackClientConfig: c.loopback}
	initializers, err := controlPlane.New(nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := (&kubeadmission.Config{}).New()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.ApplyTo(generic, system, systemClient, dynamicfake.NewSimpleDynamicClient(legacyscheme.Scheme),
		utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), append(initializers, kube...)...); err != nil {
		t.Fatal(err)
	}
	s.chain = generic.AdmissionControl
	stop := t.Context().Done()
	s.informers.Start(stop)
	s.informers.WaitForCacheSync(stop)
	return s
}

// serveSchemas serves the schema of pods in the system space and in every other.
func serveSchemas(w http.ResponseWriter, req *http.Request) {
	answer := "{}"
	switch path := req.URL.Path; {
	case strings.HasSuffix(path, "/openapi/v3"):
		answer = `{"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=1"}}}`
	case strings.HasSuffix(path, "/openapi/v3/api/v1"):
		answer = `{"openapi": "3.0.0", "components": {"schemas": {"io.k8s.api.core.v1.Pod": {
			"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			"x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}]}}}}`
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.WriteString(w, answer); err != nil {
		panic(err)
	}
}

// call is one request in a space.
type call struct {
	space       tenant.Name
	operation   admission.Operation
	object, old runtime.Object
	namespace   string
	name        string
	user        user.Info
	dryRun      bool
}

// do sends a call through the chain, as the registry does: mutation sees the
// object, validation a copy.
func (s *server) do(r call) error {
	s.t.Helper()
	if r.user == nil {
		r.user = &user.DefaultInfo{Name: "u"}
	}
	obj := r.object
	if obj == nil {
		obj = r.old
	}
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		s.t.Fatal(err)
	}
	kind := kinds[0]
	kind.Version = legacyscheme.Scheme.PrioritizedVersionsForGroup(kind.Group)[0].Version
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	accessor, err := meta.Accessor(obj)
	if err != nil {
		s.t.Fatal(err)
	}
	r.name, r.namespace = accessor.GetName(), accessor.GetNamespace()

	ctx := context.Background()
	if r.space != "" {
		ctx = tenant.WithSpace(ctx, r.space)
	}
	o := admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
	if err := s.chain.(admission.MutationInterface).Admit(ctx, r.attributes(kind, resource, r.object, r.old), o); err != nil {
		return err
	}
	return s.chain.(admission.ValidationInterface).Validate(ctx, r.attributes(kind, resource, deepCopy(r.object), deepCopy(r.old)), o)
}

func (r call) attributes(kind schema.GroupVersionKind, resource schema.GroupVersionResource, obj, old runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(obj, old, kind, r.namespace, r.name, resource, "", r.operation, nil, r.dryRun, r.user)
}

func deepCopy(obj runtime.Object) runtime.Object {
	if obj == nil {
		return nil
	}
	return obj.DeepCopyObject()
}

// create creates obj in a space.
func (s *server) create(n tenant.Name, obj runtime.Object) error {
	s.t.Helper()
	return s.do(call{space: n, operation: admission.Create, object: obj})
}

// space returns the namespaces, and their service accounts, that every space
// has, and those with further names, in the flattened view.
func space(n tenant.Name, namespaces ...string) []runtime.Object {
	var objects []runtime.Object
	for _, name := range append(namespaces, "default", "kube-system") {
		objects = append(objects, namespaceIn(n, name),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Flatten(n, name).String(), Name: "default"}})
	}
	return objects
}

func namespaceIn(n tenant.Name, name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: tenant.Flatten(n, name).String()},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

// spaces returns those of the system, a and b with a namespace "team".
func spaces(further ...runtime.Object) []runtime.Object {
	var objects []runtime.Object
	for _, n := range []tenant.Name{tenant.System, "a", "b"} {
		objects = append(objects, space(n, "team")...)
	}
	return append(objects, further...)
}

// flatMeta returns the metadata of an object in a space, in the flattened view.
func flatMeta(n tenant.Name, namespace, name string) metav1.ObjectMeta {
	if namespace == "" {
		return metav1.ObjectMeta{Name: tenant.Flatten(n, name).String()}
	}
	return metav1.ObjectMeta{Namespace: tenant.Flatten(n, namespace).String(), Name: name}
}

// pod returns a pod as it comes in.
func pod(namespace string, changes ...func(*core.Pod)) *core.Pod {
	p := &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"},
		Spec: core.PodSpec{
			Containers:      []core.Container{{Name: "c", Image: "i"}},
			SecurityContext: &core.PodSecurityContext{},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}
