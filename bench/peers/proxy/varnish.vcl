# Varnish before the origin, as it is by itself but for what may not be kept: that passes from then on, where it would be
# a miss each time. ORIGIN is filled in by the suite.
vcl 4.1;

backend default {
    .host = "ORIGIN";
}

sub vcl_backend_response {
    if (beresp.http.Cache-Control ~ "no-store") {
        return (pass(1m));
    }
}
