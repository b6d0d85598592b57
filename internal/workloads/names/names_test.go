package names

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenantry/tenantry/internal/tenant"
)

var shop = Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}

func TestHost(t *testing.T) {
	for name, change := range map[string]func(*Namespace){
		"another installation": func(n *Namespace) { n.Installation = "j" },
		"another tenant":       func(n *Namespace) { n.TenantUID = "u" },
		"another life":         func(n *Namespace) { n.UID = "o" },
		"another salt":         func(n *Namespace) { n.Salt = "s" },
		"a shifted border":     func(n *Namespace) { n.TenantUID, n.UID = "tn", "" },
	} {
		t.Run(name, func(t *testing.T) {
			other := shop
			change(&other)
			if shop.Host() == other.Host() {
				t.Errorf("both are %q", shop.Host())
			}
		})
	}
	if got := shop.Host(); !strings.HasPrefix(got, "tn-acme-shop-") || got != shop.Host() {
		t.Errorf("got %q", got)
	}
}

func TestHostIsLabel(t *testing.T) {
	for _, names := range [][2]string{
		{"a", "b"}, {strings.Repeat("a", 63), strings.Repeat("b", 63)},
		{strings.Repeat("a", 19) + "-x", strings.Repeat("b", 25) + "-x"}, {"a--b", "c--------------------------d"},
	} {
		n := shop
		n.Tenant, n.Name = tenant.Name(names[0]), names[1]
		host := n.Host()
		if problems := validation.IsDNS1123Label(host); len(problems) > 0 || len(host) > 61 {
			t.Errorf("%v: %q has %d characters, %v", names, host, len(host), problems)
		}
	}
}

func TestOf(t *testing.T) {
	got, complete := Of(shop.Labels(), shop.MarksOf("web-0", "p"))
	if diff := cmp.Diff(shop, got); diff != "" || !complete {
		t.Error(diff)
	}
	for key := range shop.Marks() {
		marks := shop.Marks()
		delete(marks, key)
		if _, complete := Of(shop.Labels(), marks); complete {
			t.Errorf("complete without %s", key)
		}
	}
	if _, complete := Of(nil, shop.Marks()); complete {
		t.Error("complete without the installation")
	}
	system := shop
	system.Tenant = "system"
	if _, complete := Of(system.Labels(), system.Marks()); complete {
		t.Error("the system space has workloads")
	}
}

func TestCopy(t *testing.T) {
	long := strings.Repeat("a", 251)
	seen := map[string]string{}
	for _, name := range []string{"kube-root-ca.crt", "x-a", "a", long, long + "b", strings.Repeat("a", 179) + "." + strings.Repeat("c", 73)} {
		got := Copy(name)
		if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
			t.Errorf("%q: %v", got, problems)
		}
		if before, taken := seen[got]; taken || got == name {
			t.Errorf("%q is of %q and %q", got, before, name)
		}
		seen[got] = name
	}
}

func TestTokens(t *testing.T) {
	one, other := Tokens("5b7c1a3e-2f0d-4f4e-9c57-0d1f5a9e6b42"), Tokens("5b7c1a3e-2f0d-4f4e-9c57-0d1f5a9e6b43")
	if one == other || len(validation.IsDNS1123Subdomain(one)) > 0 || strings.HasPrefix(one, copyPrefix) || strings.HasPrefix(one, longPrefix) {
		t.Errorf("got %q and %q", one, other)
	}
}

func TestOwnerOf(t *testing.T) {
	for account, want := range map[string]*Owner{
		"tenantry-workloads/syncer":                  {Namespace: Platform},
		"team-a/one.syncer.tenantry.io":              {Namespace: "team-a", ControlPlane: "one"},
		"tenantry-workloads/one.syncer.tenantry.io":  {Namespace: Platform, ControlPlane: "one"},
		"team-a/one-syncer.syncer.tenantry.io":       {Namespace: "team-a", ControlPlane: "one-syncer"},
		"team-a/syncer":                              nil,
		"team-a/one.connect.tenantry.io":             nil,
		"team-a/.syncer.tenantry.io":                 nil,
		"team-a/one.two.syncer.tenantry.io":          nil, // for which the policy does not hold
		"team-a/one.syncer.tenantry.io.evil.example": nil,
	} {
		namespace, name, _ := strings.Cut(account, "/")
		got, ok := OwnerOf(namespace, name)
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%s is of %v, %v", account, got, ok)
		}
		if ok && got.ControlPlane != "" && (got.Syncer() != name || got.Connect() == name) {
			t.Errorf("%s is called %s", account, got.Syncer())
		}
		if _, lease := got.Lease("i"); ok && lease != map[bool]string{true: "tenantry-syncer-i", false: name}[got.ControlPlane == ""] {
			t.Errorf("%s has the Lease %s", account, lease)
		}
	}
	for _, value := range (Owner{strings.Repeat("n", 63), strings.Repeat("c", 40)}).Labels() {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("%q: %v", value, problems)
		}
	}
}

func TestSaltOf(t *testing.T) {
	for salt, want := range map[string]string{"": "", "s": "s", strings.Repeat("s", maxSalt): strings.Repeat("s", maxSalt), strings.Repeat("s", maxSalt+1): ""} {
		if got := SaltOf(map[string]string{SaltAnnotation: salt}); got != want {
			t.Errorf("of %d bytes: got %q", len(salt), got)
		}
	}
}

// TestHash checks that nobody finds two of the same hash, which is too short below 128 bits.
func TestHash(t *testing.T) {
	if got := Hash("a"); len(got) != 32 || got == Hash("b") {
		t.Errorf("the hash is %s", got)
	}
}
