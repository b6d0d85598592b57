package configuration

import (
	"strings"
	"testing"
)

const (
	authentication = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	jwt            = "jwt:\n- issuer: {url: https://id.example.com, audiences: [tenantry]}\n  claimMappings: {username: {claim: email, prefix: ''}}\n"
	authorization  = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
	rbac           = "- {type: RBAC, name: rbac}\n"
	webhook        = "- type: Webhook\n  name: w\n  webhook: {timeout: 3s, authorizedTTL: 1s, unauthorizedTTL: 1s, subjectAccessReviewVersion: v1, failurePolicy: Deny, " +
		"matchConditionSubjectAccessReviewVersion: v1, connectionInfo: CONNECTION}\n"
	connection = "{type: KubeConfigFile, kubeConfigFile: /etc/tenantry/configuration/authorization/webhook.kubeconfig}"
	admission  = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	policy     = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: Metadata}\n"
	manager    = "apiVersion: config.tenantry.io/v1alpha1\nkind: ManagerConfiguration\n"
	limits     = "apiVersion: config.tenantry.io/v1alpha1\nkind: TenantLimitsConfiguration\n"
	kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
	server     = kubeconfig + "clusters: [{name: c, cluster: {server: https://w.example.com}}]\n"
)

// bomb is YAML of which aliases make more.
const bomb = "x: &a [1]\ny: [*a, *a]\n"

// webhooks returns a configuration of the webhooks of spaces, whose users are in a file.
func webhooks(file string) string {
	return admission + "- {name: ValidatingAdmissionWebhook, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: " + file + "}}\n"
}

// connected returns an authorization webhook that is reached in some way.
func connected(how string) string {
	return authorization + rbac + strings.Replace(webhook, "CONNECTION", how, 1)
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		section Section
		content string
		beside  map[string]string
		err     string // empty if all is well
	}{
		"nothing": {Audit, "", nil, "audit.yaml is missing or empty"},

		"tokens":                   {Authentication, authentication + jwt, nil, ""},
		"in JSON":                  {Authentication, `{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": []}`, nil, ""},
		"an unknown field":         {Authentication, authentication + "jwts: []\n", nil, `unknown field "jwts"`},
		"no YAML":                  {Authentication, "a: [", nil, "did not find expected node content"},
		"another kind":             {Authentication, authorization + rbac, nil, "its kind is AuthorizationConfiguration, and must be AuthenticationConfiguration"},
		"an issuer without TLS":    {Authentication, strings.Replace(authentication+jwt, "https", "http", 1), nil, "URL scheme must be https"},
		"the servers' own issuer":  {Authentication, strings.Replace(authentication+jwt, "https://id.example.com", serviceAccountIssuer, 1), nil, "must not overlap with disallowed issuers"},
		"a wrong expression":       {Authentication, strings.Replace(authentication+jwt, "{claim: email, prefix: ''}", "{expression: claims.}", 1), nil, "compilation failed"},
		"nobody without a name":    {Authentication, authentication + "anonymous: {enabled: false}\n", nil, "the host asks without credentials"},
		"probes without a name":    {Authentication, authentication + "anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}]}\n", nil, ""},
		"half of the probes":       {Authentication, authentication + "anonymous: {enabled: true, conditions: [{path: /livez}]}\n", nil, "add the path /readyz"},
		"anybody without a name":   {Authentication, authentication + "anonymous: {enabled: true}\n", nil, ""},
		"conditions of no visitor": {Authentication, authentication + "anonymous: {enabled: false, conditions: [{path: /readyz}]}\n", nil, "enabled should be set to true"},

		"modes":                     {Authorization, authorization + rbac + "- {type: Node, name: node}\n", nil, ""},
		"no mode":                   {Authorization, authorization + "  []\n", nil, "at least one authorization mode"},
		"everything allowed":        {Authorization, authorization + "- {type: AlwaysAllow, name: a}\n", nil, "Unsupported value: \"AlwaysAllow\""},
		"a mode with a file":        {Authorization, authorization + "- {type: ABAC, name: a}\n", nil, "Unsupported value: \"ABAC\""},
		"a mode twice":              {Authorization, authorization + rbac + "- {type: RBAC, name: again}\n", nil, "Duplicate value"},
		"a webhook":                 {Authorization, connected(connection), map[string]string{"webhook.kubeconfig": server}, ""},
		"a webhook of no file":      {Authorization, connected(connection), nil, "there is no such file"},
		"a webhook of a key":        {Authorization, connected("{type: KubeConfigFile, kubeConfigFile: /etc/tenantry/pki/server.key}"), map[string]string{"server.key": server}, "there is no such file"},
		"a webhook elsewhere":       {Authorization, connected("{type: KubeConfigFile, kubeConfigFile: /etc/tenantry/configuration/authorization/../x}"), map[string]string{"x": server}, "there is no such file"},
		"a webhook of a short name": {Authorization, connected("{type: KubeConfigFile, kubeConfigFile: webhook.kubeconfig}"), map[string]string{"webhook.kubeconfig": server}, "it must be /etc/tenantry/configuration/authorization/KEY"},
		"a webhook by no account":   {Authorization, connected("{type: InClusterConfig}"), nil, `Unsupported value: "InClusterConfig"`},
		"a webhook that is none":    {Authorization, connected(connection), map[string]string{"webhook.kubeconfig": kubeconfig}, `the cluster "c" of its context has no server`},
		"a wrong condition": {Authorization, strings.Replace(connected(connection), "timeout: 3s", "timeout: 3s, matchConditions: [{expression: 'request.'}]", 1),
			map[string]string{"webhook.kubeconfig": server}, "compilation failed"},

		"rules":             {Audit, policy, nil, ""},
		"no rules":          {Audit, "apiVersion: audit.k8s.io/v1\nkind: Policy\n", nil, "0 rules"},
		"a misspelt rule":   {Audit, policy + "- {level: None, verb: [get]}\n", nil, `unknown field "rules[1].verb"`},
		"an unknown level":  {Audit, policy + "- {level: Some}\n", nil, `Unsupported value: "Some"`},
		"a former version":  {Audit, strings.Replace(policy, "/v1", "/v1beta1", 1), nil, "no kind"},
		"something else":    {Audit, manager, nil, "no kind"},
		"a webhook's":       {AuditWebhook, server, nil, ""},
		"an authority":      {AuditWebhook, strings.Replace(server, "cluster: {", "cluster: {certificate-authority: ca.crt, ", 1), map[string]string{"ca.crt": "x"}, ""},
		"no authority":      {AuditWebhook, strings.Replace(server, "cluster: {", "cluster: {certificate-authority: ca.crt, ", 1), nil, `certificate-authority "ca.crt": there is no such file`},
		"a server's key":    {AuditWebhook, server + "users: [{name: u, user: {client-key: /etc/tenantry/pki/client-ca.key}}]\n", map[string]string{"client-ca.key": "x"}, "there is no such file"},
		"a token elsewhere": {AuditWebhook, server + "users: [{name: u, user: {tokenFile: ../pki/client-ca.key}}]\n", map[string]string{"client-ca.key": "x"}, "there is no such file"},
		"a program": {AuditWebhook, server + "users: [{name: u, user: {exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}]\n", nil,
			"servers have no programs to run"},
		"no context": {AuditWebhook, strings.Replace(server, "current-context: c", "current-context: d", 1), nil, `current-context "d" is not one of its contexts`},

		"of SpacePolicy": {Admission, admission + "- {name: SpacePolicy, configuration: {apiVersion: config.tenantry.io/v1alpha1, kind: SpacePolicyConfiguration}}\n", nil, ""},
		"wrong of SpacePolicy": {Admission, admission + "- {name: SpacePolicy, configuration: {apiVersion: config.tenantry.io/v1alpha1, kind: SpacePolicyConfiguration, daemonSets: {mode: Some}}}\n", nil,
			"plugins[0].configuration: the configuration of SpacePolicy: daemonSets.mode"},
		"of PodSecurity":        {Admission, admission + "- {name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: baseline}}}\n", nil, ""},
		"wrong of PodSecurity":  {Admission, admission + "- {name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: some}}}\n", nil, "plugins[0].configuration: defaults.enforce"},
		"in a file":             {Admission, admission + "- {name: SpacePolicy, path: policy.yaml}\n", map[string]string{"policy.yaml": "kind: SpacePolicyConfiguration\napiVersion: config.tenantry.io/v1alpha1\n"}, ""},
		"wrong in a file":       {Admission, admission + "- {name: SpacePolicy, path: policy.yaml}\n", map[string]string{"policy.yaml": "kind: SpacePolicy\n"}, "want \"config.tenantry.io/v1alpha1\""},
		"in no file":            {Admission, admission + "- {name: SpacePolicy, path: policy.yaml}\n", nil, `plugins[0].path: "policy.yaml": there is no such file`},
		"in two places":         {Admission, admission + "- {name: PodSecurity, path: a, configuration: {}}\n", map[string]string{"a": "x"}, "it has no effect beside configuration"},
		"a plugin twice":        {Admission, admission + "- {name: PodSecurity}\n- {name: PodSecurity}\n", nil, "plugins[1].name: PodSecurity is there twice"},
		"a misspelt plugin":     {Admission, admission + "- {name: SpacePolcy}\n", nil, `plugins[0].name: "SpacePolcy" is no plugin that takes a configuration`},
		"what a server decides": {Admission, admission + "- {name: ResourceQuota, configuration: {limitedResources: 7}}\n", nil, ""},

		"aliases":                 {Authentication, bomb + authentication, nil, "authentication.yaml: it has an alias of YAML"},
		"aliases of audit":        {Audit, bomb + policy, nil, "audit.yaml: it has an alias of YAML"},
		"aliases of a manager":    {Manager, bomb + manager, nil, "manager.yaml: it has an alias of YAML"},
		"aliases of admission":    {Admission, bomb + admission, nil, "admission.yaml: it has an alias of YAML"},
		"aliases of a kubeconfig": {AuditWebhook, bomb + server, nil, "kubeconfig: it has an alias of YAML"},
		"aliases of a webhook":    {Authorization, connected(connection), map[string]string{"webhook.kubeconfig": bomb + server}, "it has an alias of YAML"},
		"aliases in a file":       {Admission, admission + "- {name: SpacePolicy, path: policy.yaml}\n", map[string]string{"policy.yaml": bomb}, "it has an alias of YAML"},
		"aliases of a quota":      {Admission, admission + "- {name: ResourceQuota, path: policy.yaml}\n", map[string]string{"policy.yaml": bomb}, "it has an alias of YAML"},
		"much":                    {Audit, policy + strings.Repeat("# much\n", 40_000), nil, "make it shorter"},
		"long expressions": {Authentication, authentication + strings.Replace(jwt, "{claim: email, prefix: ''}", "{expression: claims.a"+strings.Repeat(".a", 8192)+"}", 1), nil,
			"it has 1 expressions of 16392 bytes together"},
		"many conditions": {Authorization, strings.Replace(connected(connection), "timeout: 3s", "timeout: 3s, matchConditions: ["+strings.Repeat("{expression: 'true'},", 501)+"]", 1),
			map[string]string{"webhook.kubeconfig": server}, "it has 501 expressions"},

		"webhooks":             {Admission, webhooks("/etc/tenantry/configuration/admission/users"), map[string]string{"users": kubeconfig + "users: [{name: '*.example.com', user: {token: x}}]"}, ""},
		"webhooks of nobody":   {Admission, admission + "- {name: MutatingAdmissionWebhook}\n", nil, ""},
		"webhooks, by a key":   {Admission, webhooks("/etc/tenantry/pki/client-ca.key"), map[string]string{"client-ca.key": "x"}, "there is no such file"},
		"webhooks, by no file": {Admission, webhooks("/etc/tenantry/configuration/admission/users"), nil, "there is no such file"},
		"webhooks, by a program": {Admission, webhooks("/etc/tenantry/configuration/admission/users"), map[string]string{
			"users": "apiVersion: v1\nkind: Config\nusers: [{name: '*', user: {exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}]"},
			"servers have no programs to run"},
		"webhooks, by another's token": {Admission, webhooks("/etc/tenantry/configuration/admission/users"), map[string]string{
			"users": "apiVersion: v1\nkind: Config\nusers: [{name: '*', user: {tokenFile: /etc/tenantry/pki/client-ca.key}}]", "client-ca.key": "x"}, "there is no such file"},

		"a long number": {Manager, manager + "defaultQuota: {pods: 1e-12345}\n", nil, ""},
		"a long quota":  {Manager, manager + "defaultQuota: {pods: '1e-12345'}\n", nil, "defaultQuota: pods: the number \"1e-12345\" has an exponent"},

		"limits of a quota":       {TenantLimits, limits + "limits: {quota: {pods: 5}}\n", nil, ""},
		"wrong limits of a quota": {TenantLimits, limits + "limits: {quota: {count/pod: 5}}\n", nil, "limits.quota[count/pod]"},

		"a quota":       {Manager, manager + "defaultQuota: {pods: 5}\n", nil, ""},
		"a wrong quota": {Manager, manager + "defaultQuota: {pod: 5}\n", nil, "defaultQuota"},
	} {
		t.Run(name, func(t *testing.T) {
			files := Files{tc.section.File(): []byte(tc.content)}
			for name, content := range tc.beside {
				files[name] = []byte(content)
			}
			err := Check(tc.section, files)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), tc.section.File())) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
		})
	}
}

// TestDigest checks which changes need new pods.
func TestDigest(t *testing.T) {
	files := Files{"webhook.kubeconfig": []byte(server)}
	for name, tc := range map[string]struct {
		section       Section
		before, after string
		same          bool
	}{
		"another issuer":     {Authentication, authentication + jwt, strings.Replace(authentication+jwt, "id.", "other.", 1), true},
		"anonymous":          {Authentication, authentication + jwt, authentication + jwt + "anonymous: {enabled: true}\n", false},
		"a webhook":          {Authorization, authorization + rbac, connected(connection), true},
		"another mode":       {Authorization, authorization + rbac, authorization + rbac + "- {type: Node, name: node}\n", false},
		"a rule of audit":    {Audit, policy, policy + "- {level: None}\n", false},
		"a limit":            {TenantLimits, "limits: {}\n", "limits: {quota: {pods: 1}}\n", false},
		"a plugin":           {Admission, admission + "  []\n", admission + "- {name: PodSecurity}\n", false},
		"a quota by default": {Manager, manager, manager + "defaultQuota: {pods: 1}\n", false},
		"nothing":            {Audit, policy, policy, true},
	} {
		t.Run(name, func(t *testing.T) {
			digest := func(content string) string {
				with := Files{tc.section.File(): []byte(content)}
				for name, content := range files {
					with[name] = content
				}
				d, err := Digest(map[Section]Files{tc.section: with})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			if same := digest(tc.before) == digest(tc.after); same != tc.same {
				t.Errorf("the digest is the same: %v", same)
			}
		})
	}
	beside := func(content string) string {
		d, err := Digest(map[Section]Files{Authorization: {"authorization.yaml": []byte(authorization + rbac), "webhook.kubeconfig": []byte(content)}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if beside(server) == beside(kubeconfig) {
		t.Error("a kubeconfig that servers read once can change without new pods")
	}
}
