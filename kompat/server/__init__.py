"""Sockets: frames in, answers out in request order, and limits on what any one client can cost the others."""
