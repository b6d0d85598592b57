package translate

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// granted are the rules of a Tenant that may have Ingresses.
var granted = Rules{
	HostNames: []string{"*.acme.example.com", "acme.example.com"}, IngressClasses: []string{"nginx", "slow"}, IngressAnnotations: []string{"nginx.ingress.kubernetes.io/rewrite-target"},
}

func backend(name string) networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

func spaceIngress(change func(*networkingv1.Ingress)) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "acme|shop", UID: "i", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{}, Finalizers: []string{"f"}},
		Spec: networkingv1.IngressSpec{
			IngressClassName: new("nginx"),
			Rules: []networkingv1.IngressRule{{Host: "shop.acme.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/cart-1/~me/%20", PathType: new(networkingv1.PathTypePrefix), Backend: backend("web")}},
			}}}},
			TLS: []networkingv1.IngressTLS{{Hosts: []string{"shop.acme.example.com"}, SecretName: "cert"}},
		},
	}
	if change != nil {
		change(ingress)
	}
	return ingress
}

func TestCheckIngress(t *testing.T) {
	host := func(name string) func(*networkingv1.Ingress) {
		return func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = name }
	}
	annotated := func(key string) func(*networkingv1.Ingress) {
		return func(i *networkingv1.Ingress) { i.Annotations[key] = "v" }
	}
	at := func(path string) func(*networkingv1.Ingress) {
		return func(i *networkingv1.Ingress) { i.Spec.Rules[0].HTTP.Paths[0].Path = path }
	}
	const hostPath, pathPath = "spec.rules[0].host: Forbidden: ", "spec.rules[0].http.paths[0].path: Forbidden: "
	for name, tc := range map[string]struct {
		change func(*networkingv1.Ingress)
		want   string
	}{
		"one that may be":       {},
		"a name itself":         {change: host("acme.example.com")},
		"all names":             {change: host("*.acme.example.com")},
		"without a host":        {change: host(""), want: hostPath + "without a host, an Ingress would have what is sent for every host name; name one of *.acme.example.com, acme.example.com"},
		"another's":             {change: host("shop.globex.example.com"), want: hostPath + `Ingresses of this Tenant may name *.acme.example.com, acme.example.com; name one of these, or ask the platform's administrators for "shop.globex.example.com" in workloads.hostNames of the Tenant`},
		"above":                 {change: host("example.com"), want: hostPath},
		"two labels below":      {change: host("a.b.acme.example.com"), want: hostPath},
		"all names below":       {change: host("*.b.acme.example.com"), want: hostPath},
		"all names above":       {change: host("*.example.com"), want: hostPath},
		"a suffix alone":        {change: host("evilacme.example.com"), want: hostPath},
		"in capitals":           {change: host("Shop.acme.example.com"), want: hostPath},
		"with a dot at its end": {change: host("acme.example.com."), want: hostPath},
		"an empty label":        {change: host(".acme.example.com"), want: hostPath},
		"a line break":          {change: host("a\nb.acme.example.com"), want: hostPath},
		"a star within":         {change: host("a*.acme.example.com"), want: hostPath},
		"a default backend":     {change: func(i *networkingv1.Ingress) { i.Spec.DefaultBackend = new(backend("web")) }, want: "spec.defaultBackend: Forbidden: an Ingress would have what is sent for every host name by it"},
		"a resource": {change: func(i *networkingv1.Ingress) {
			i.Spec.Rules[0].HTTP.Paths[0].Backend.Resource = &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}
		}, want: "spec.rules[0].http.paths[0].backend.resource: Forbidden"},
		"no class":                {change: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = nil }, want: "spec.ingressClassName: Forbidden: Ingresses of this Tenant may have nginx, slow; name one of these"},
		"an empty class":          {change: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = new("") }, want: "spec.ingressClassName: Forbidden"},
		"another class":           {change: func(i *networkingv1.Ingress) { i.Spec.IngressClassName = new("internal") }, want: "spec.ingressClassName: Forbidden"},
		"a class of before":       {change: annotated("kubernetes.io/ingress.class"), want: "metadata.annotations[kubernetes.io/ingress.class]: Forbidden: the class of an Ingress is in spec.ingressClassName"},
		"a snippet":               {change: annotated("nginx.ingress.kubernetes.io/server-snippet"), want: "metadata.annotations[nginx.ingress.kubernetes.io/server-snippet]: Forbidden: annotations tell what serves Ingresses of all tenants what to do"},
		"an annotation":           {change: annotated("nginx.ingress.kubernetes.io/rewrite-target")},
		"somebody's annotation":   {change: annotated("meta.helm.sh/release-name")},
		"no path":                 {change: at("")},
		"a path in no directory":  {change: at("cart"), want: pathPath + "on a host cluster, a path begins with /"},
		"a path that ends a line": {change: at("/a\n} location / {"), want: pathPath},
		"a path with a quote":     {change: at(`/a"`), want: pathPath},
		"a path with a backtick":  {change: at("/a`) || Host(`x"), want: pathPath},
		"a path of a directive":   {change: at("/a;b"), want: pathPath},
		"a path with a variable":  {change: at("/$uri"), want: pathPath},
		"a path that repeats":     {change: at("/(a*)*"), want: pathPath},
		"a path that repeats a":   {change: at("/a+"), want: pathPath},
		"a long path":             {change: at("/" + strings.Repeat("a", maxPath)), want: pathPath},
		"another's certificate":   {change: func(i *networkingv1.Ingress) { i.Spec.TLS[0].Hosts = []string{"shop.globex.example.com"} }, want: "spec.tls[0].hosts[0]: Forbidden"},
		"everybody's certificate": {change: func(i *networkingv1.Ingress) { i.Spec.TLS[0].Hosts = nil }, want: "spec.tls[0].hosts: Forbidden: without a host"},
		"a Secret elsewhere":      {change: func(i *networkingv1.Ingress) { i.Spec.TLS[0].SecretName = "other/cert" }, want: "spec.tls[0].secretName: Forbidden"},
		"the platform's":          {change: func(i *networkingv1.Ingress) { i.Spec.TLS[0].SecretName = "" }},
		"no paths":                {change: func(i *networkingv1.Ingress) { i.Spec.Rules[0].HTTP = nil }},
		"many rules":              {change: func(i *networkingv1.Ingress) { i.Spec.Rules = make([]networkingv1.IngressRule, maxHosts+1) }, want: "spec: Forbidden: on a host cluster, an Ingress has at most 64 rules"},
		"many paths": {change: func(i *networkingv1.Ingress) {
			i.Spec.Rules[0].HTTP.Paths = make([]networkingv1.HTTPIngressPath, maxPaths+1)
		}, want: "spec: Forbidden"},
		"many certificates": {change: func(i *networkingv1.Ingress) { i.Spec.TLS = make([]networkingv1.IngressTLS, maxCertificates+1) }, want: "spec: Forbidden"},
		"many names":        {change: func(i *networkingv1.Ingress) { i.Spec.TLS[0].Hosts = make([]string, 2*maxHosts) }, want: "spec: Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			ingress := spaceIngress(tc.change)
			errs := granted.CheckIngress(&ingress.ObjectMeta, &ingress.Spec, field.NewPath("spec"))
			if tc.want == "" && len(errs) > 0 {
				t.Errorf("refused: %v", errs)
			}
			if tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
			if errs := (Rules{IngressClasses: granted.IngressClasses}).CheckIngress(&ingress.ObjectMeta, &ingress.Spec, field.NewPath("spec")); len(errs) > 0 {
				t.Errorf("without host names, it is refused: %v", errs)
			}
		})
	}
	ingress := spaceIngress(nil)
	if errs := (Rules{HostNames: granted.HostNames}).CheckIngress(&ingress.ObjectMeta, &ingress.Spec, field.NewPath("spec")); len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), "may have none") {
		t.Errorf("without classes: %v", errs)
	}
}

// TestIngress checks that the host has of an Ingress what it is to have, and no more.
func TestIngress(t *testing.T) {
	home := names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}
	ingress := spaceIngress(func(i *networkingv1.Ingress) {
		i.Annotations = map[string]string{
			"nginx.ingress.kubernetes.io/rewrite-target": "/x", "example.com/other": "x", "kubernetes.io/ingress.class": "other", names.TenantAnnotation: "globex", names.KeysAnnotation: "example.com/other",
		}
		i.Spec.TLS = append(i.Spec.TLS, networkingv1.IngressTLS{Hosts: []string{"acme.example.com"}})
	})
	rules := granted
	rules.IngressAnnotations = append(rules.IngressAnnotations, "kubernetes.io/ingress.class", names.TenantAnnotation, "example.com/missing")
	want := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: "i"}, Annotations: home.MarksOf("web", "i")},
		Spec:       *ingress.Spec.DeepCopy(),
	}
	want.Annotations["nginx.ingress.kubernetes.io/rewrite-target"], want.Annotations[names.KeysAnnotation] = "/x", "nginx.ingress.kubernetes.io/rewrite-target"
	want.Spec.TLS[0].SecretName = "tnc-cert"
	got := rules.Ingress(ingress, home)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.Spec.Rules[0].HTTP.Paths[0].Path = "/other"
	if ingress.Spec.TLS[0].SecretName != "cert" || ingress.Spec.Rules[0].HTTP.Paths[0].Path == "/other" {
		t.Error("the space's has changed")
	}
	rules.IngressClasses = []string{"only"}
	if got := rules.Ingress(spaceIngress(func(i *networkingv1.Ingress) { i.Spec.IngressClassName = nil }), home); *got.Spec.IngressClassName != "only" {
		t.Errorf("without a class it has %q", *got.Spec.IngressClassName)
	}
	if got := fmt.Sprint(CertificatesOf(&ingress.Spec)); got != "[cert]" {
		t.Errorf("it names %s", got)
	}
}

// TestPath compares what paths may have with a regular expression that says the same.
func TestPath(t *testing.T) {
	says := regexp.MustCompile(`^/[A-Za-z0-9/._~%!&,:=@-]*$`)
	for b := range 256 {
		for _, text := range []string{string([]byte{byte(b)}), string([]byte{'/', byte(b)}), string([]byte{'/', 'a', byte(b), 'a'})} {
			if isPath(text) != says.MatchString(text) {
				t.Errorf("%q is a path: %t", text, isPath(text))
			}
		}
	}
	if long := "/" + strings.Repeat("a", maxPath-1); !isPath(long) || isPath(long+"a") || isPath("") {
		t.Error("a path is as long as it may be, and no longer")
	}
}
